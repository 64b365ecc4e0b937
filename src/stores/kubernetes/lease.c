/* Mutexes as Leases (coordination.k8s.io/v1), in the form of client-go's leaderelection package, and what we add to that in annotations.
 * A Lease comes from outside: anybody who may write to the namespace can write one. Pure. */
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/calendar.h"
#include "stores/kubernetes/kubernetes.h"
#include "util/digits.h"
#include "util/saturate.h"
#include "util/text.h"

enum { TIME_SIZE = sizeof "2026-01-02T03:04:05.000006Z" };

#define HASHED "simba-"
enum { HASHED_DIGITS = 32 };

/* --- names ------------------------------------------------------------------------------------------- */

/* Is it a DNS subdomain of RFC 1123, which every object's name has to be? Labels between dots, each of letters and digits, and of hyphens
 * inside. */
static bool is_subdomain(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    if (strlen(name) >= KUBE_NAME_SIZE)
        return false;
    for (;; name++) {
        const size_t length = strspn(name, letters);
        if (length == 0 || name[0] == '-' || name[length - 1] == '-')
            return false;
        name += length;
        if (*name != '.')
            return *name == '\0';
    }
}

void simba__kube_name(const char *mutex, char ret_name[KUBE_NAME_SIZE])
{
    const size_t prefix = strlen(HASHED);
    const bool looks_hashed = strncmp(mutex, HASHED, prefix) == 0 && strlen(mutex) == prefix + HASHED_DIGITS;
    if (is_subdomain(mutex) && !looks_hashed) {
        strcpy(ret_name, mutex);
        return;
    }
    unsigned char hash[EVP_MAX_MD_SIZE] = {0};
    EVP_Digest(mutex, strlen(mutex), hash, NULL, EVP_sha256(), NULL);
    strcpy(ret_name, HASHED);
    for (size_t i = 0; i < HASHED_DIGITS / 2; i++)
        snprintf(ret_name + prefix + 2 * i, 3, "%02x", hash[i]);
}

/* The mutex of a Lease: the annotation, if it is true. */
static void find_mutex(kube_lease *lease, simba__json annotations)
{
    char name[KUBE_NAME_SIZE];
    if (simba__json_text(simba__json_get(annotations, "simba/mutex"), lease->mutex, sizeof lease->mutex) &&
        simba__check_mutex(lease->mutex, NULL) == 0) {
        simba__kube_name(lease->mutex, name);
        if (strcmp(name, lease->name) == 0)
            return;
    }
    snprintf(lease->mutex, sizeof lease->mutex, "%s", lease->name);
}

/* --- values ------------------------------------------------------------------------------------------ */

static bool take_number(const char **text, int base, uint64_t *ret_number)
{
    char *end;
    if (**text < '0' || **text > 'f')
        return false;
    *ret_number = strtoull(*text, &end, base);
    const bool taken = end > *text && (*end == ' ' || *end == '\0');
    *text = *end == ' ' ? end + 1 : end;
    return taken;
}

/* Microseconds since 1970; 0: there is no time that can be read. */
static int64_t time_of(simba__json value)
{
    char text[40];
    struct tm tm = {0};
    const char *end = simba__json_text(value, text, sizeof text) ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
    if (!end)
        return 0;
    int64_t us = (int64_t)timegm(&tm) * 1000000;
    int64_t unit = 100000;
    for (const char *digit = end + (*end == '.'); *digit >= '0' && *digit <= '9' && unit > 0; digit++, unit /= 10)
        us += (*digit - '0') * unit;
    return us;
}

/* Six decimals exactly: Go refuses others. */
static const char *write_time(int64_t us, char ret_text[TIME_SIZE])
{
    const time_t seconds = (time_t)simba__floor_div(us, 1000000);
    struct tm tm = {0};
    gmtime_r(&seconds, &tm);
    snprintf(ret_text, TIME_SIZE, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", (tm.tm_year + 1900) % 10000, tm.tm_mon + 1,
             tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(us - seconds * 1000000));
    return ret_text;
}

/* --- reading ----------------------------------------------------------------------------------------- */

/* "NONCE TOKEN MS" is the latest grant, and that of this holder if its identity ends in the nonce: other programs leave annotations alone
 * when they take the Lease, and so does a release. `identity` NULL: nobody holds it. */
static void find_holder(versioned_record *record, simba__json annotations, const char *identity)
{
    char text[80], digits[24];
    uint64_t nonce, token, lease_ms;
    const char *at = text;
    const char *mark = identity ? strrchr(identity, '_') : NULL;
    const bool is_grant = simba__json_text(simba__json_get(annotations, "simba/grant"), text, sizeof text) &&
                          take_number(&at, 16, &nonce) && take_number(&at, 10, &token) &&
                          take_number(&at, 10, &lease_ms) && token > 0 && token <= SIMBA__TOKEN_MAX;
    record->last_token = is_grant ? token : 0;
    snprintf(digits, sizeof digits, "%016" PRIx64, is_grant ? nonce : 0);
    if (is_grant && mark && strcmp(mark + 1, digits) == 0 && mark - identity <= SIMBA_ID_MAX && mark > identity &&
        lease_ms > 0 && (int64_t)lease_ms <= SIMBA_LEASE_MAX_MS) {
        memcpy(record->id, identity, (size_t)(mark - identity));
        record->nonce = nonce;
        record->token = token;
        record->lease_ms = (int64_t)lease_ms;
    } else if (identity) {
        memcpy(record->id, identity, (size_t)simba__text_cut(identity, SIMBA_ID_MAX));
    }
}

/* "TOKEN NUMBER MS BASE64" */
static void find_note(kube_lease *lease, simba__json annotations)
{
    char text[SIMBA__BASE64_SIZE(SIMBA_NOTE_MAX) + 80];
    const simba__json value = simba__json_get(annotations, "simba/note");
    versioned_record *record = &lease->record;
    uint64_t written_at_ms;
    const char *at = text;
    if (value.length == 0)
        return;
    lease->note_damaged = !simba__json_text(value, text, sizeof text) || !take_number(&at, 10, &record->note_token) ||
                          !take_number(&at, 10, &record->note_number) || !take_number(&at, 10, &written_at_ms) ||
                          !simba__base64_decode(at, strlen(at), lease->note, SIMBA_NOTE_MAX, &lease->note_size);
    if (lease->note_damaged)
        record->note_token = record->note_number = lease->note_size = 0;
    else
        record->note_written_at_ms = (int64_t)written_at_ms;
}

bool simba__kube_parse_lease(simba__json object, kube_lease *ret_lease)
{
    const simba__json metadata = simba__json_get(object, "metadata");
    const simba__json annotations = simba__json_get(metadata, "annotations");
    const simba__json spec = simba__json_get(object, "spec");
    const simba__json holder = simba__json_get(spec, "holderIdentity");
    versioned_record *record = &ret_lease->record;
    char identity[1024] = "", revoked[24];
    int64_t version = 0, seconds = 0;
    memset(ret_lease, 0, sizeof *ret_lease);
    if (!simba__json_text(simba__json_get(metadata, "name"), ret_lease->name, sizeof ret_lease->name) ||
        !simba__json_int(simba__json_get(metadata, "resourceVersion"), &version) || version <= 0)
        return false;
    record->exists = true;
    record->version = (uint64_t)version;
    simba__json_text(simba__json_get(metadata, "uid"), record->tag, sizeof record->tag);
    find_mutex(ret_lease, annotations);
    const bool unreadable = holder.length > 0 && !simba__json_text(holder, identity, sizeof identity);
    record->held = unreadable || identity[0] != '\0';
    if (!simba__json_int(simba__json_get(spec, "leaseDurationSeconds"), &seconds) || seconds > INT32_MAX)
        seconds = 0;
    record->lease_ms = seconds * 1000;
    find_holder(record, annotations, unreadable ? "?" : record->held ? identity : NULL);
    record->acquired_us = time_of(simba__json_get(spec, "acquireTime"));
    record->renewed_us = time_of(simba__json_get(spec, "renewTime"));
    if (simba__json_int(simba__json_get(spec, "leaseTransitions"), &record->grants) && record->grants > INT32_MAX)
        record->grants = INT32_MAX; /* is the most that the server stores */
    const char *at = revoked;
    if (simba__json_text(simba__json_get(annotations, "simba/revoked"), revoked, sizeof revoked))
        take_number(&at, 16, &record->revoked_nonce);
    find_note(ret_lease, annotations);
    if (simba__json_get(spec, "strategy").length > 0)
        ret_lease->flaw = "it is subject to coordinated leader election (spec.strategy), which lets nobody else lead";
    else if (record->held && record->lease_ms <= 0)
        ret_lease->flaw = "it has a holder, and no leaseDurationSeconds";
    return true;
}

/* --- writing ----------------------------------------------------------------------------------------- */

/* Without a holder: creating never grants. */
void simba__kube_put_new(simba__buffer *out, const char *name, const char *mutex)
{
    simba__json_put(out, "{'apiVersion':'coordination.k8s.io/v1','kind':'Lease','metadata':{'name':%s", name);
    if (strcmp(name, mutex) != 0)
        simba__json_put(out, ",'annotations':{'simba/mutex':%s}", mutex);
    simba__json_put(out, "},'spec':{}}");
}

static void put_note(simba__buffer *out, const versioned_record *wanted, const simba_request *request)
{
    char text[SIMBA__BASE64_SIZE(SIMBA_NOTE_MAX) + 80];
    const int length = snprintf(text, sizeof text, "%" PRIu64 " %" PRIu64 " %" PRId64 " ", wanted->note_token,
                                wanted->note_number, wanted->note_written_at_ms);
    simba__base64(request->note, request->note_size, text + length);
    simba__json_put(out, ",'simba/note':%s", text);
}

void simba__kube_put_patch(simba__buffer *out, const versioned_record *wanted, uint64_t replaced,
                           const simba_request *note)
{
    char identity[SIMBA_ID_MAX + 24] = "", text[80], acquired[TIME_SIZE], renewed[TIME_SIZE];
    const int64_t seconds = wanted->held ? simba__sat_add(wanted->lease_ms, 999) / 1000 : 1;
    if (wanted->held)
        snprintf(identity, sizeof identity, "%s_%016" PRIx64, wanted->id, wanted->nonce);
    snprintf(text, sizeof text, "%016" PRIx64 " %" PRIu64 " %" PRId64, wanted->nonce,
             wanted->held ? wanted->token : wanted->last_token, wanted->lease_ms);
    simba__json_put(out, "{'metadata':{'resourceVersion':'%lld','annotations':{'simba/grant':%s", (long long)replaced,
                    text);
    if (wanted->revoked_nonce) {
        snprintf(text, sizeof text, "%016" PRIx64, wanted->revoked_nonce);
        simba__json_put(out, ",'simba/revoked':%s", text);
    }
    if (note)
        put_note(out, wanted, note);
    simba__json_put(out,
                    "}},'spec':{'holderIdentity':%s,'leaseDurationSeconds':%lld,'acquireTime':%s,'renewTime':%s,"
                    "'leaseTransitions':%lld}}",
                    identity, (long long)(seconds < INT32_MAX ? seconds : INT32_MAX),
                    write_time(wanted->acquired_us, acquired), write_time(wanted->renewed_us, renewed),
                    (long long)(wanted->grants < INT32_MAX ? wanted->grants : INT32_MAX));
}

void simba__kube_put_removal(simba__buffer *out, const versioned_record *known)
{
    simba__json_put(out,
                    "{'apiVersion':'v1','kind':'DeleteOptions','preconditions':{'uid':%s,'resourceVersion':'%lld'}}",
                    known->tag, (long long)known->version);
}
