/* Names, requests and answers, as etcd's JSON gateway has them: keys and values in base64, 64-bit numbers as text, and what is zero is
 * left out. Pure. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "stores/etcd/etcd.h"
#include "util/assert.h"
#include "util/digits.h"
#include "util/text.h"

/* --- names -------------------------------------------------------------------------------------------------- */

void simba__etcd_names(const char *prefix, const char *mutex, etcd_names *ret_names)
{
    snprintf(ret_names->folder, sizeof ret_names->folder, "%s%s/", prefix, mutex);
    snprintf(ret_names->note, sizeof ret_names->note, "simba-notes/%s%s", prefix, mutex);
    ret_names->own[0] = '\0';
}

void simba__etcd_name_own(etcd_names *names, int64_t lease, uint64_t nonce)
{
    snprintf(names->own, sizeof names->own, "%s%" PRIx64 "-%016" PRIx64, names->folder, (uint64_t)lease, nonce);
}

bool simba__etcd_contends(const char *folder, const char *key)
{
    const size_t length = strlen(folder);
    return strncmp(key, folder, length) == 0 && key[length] != '\0' && !strchr(key + length, '/');
}

bool simba__etcd_is_lock(const etcd_kv *kv)
{
    char lease[24];
    const char *slash = strrchr(kv->key, '/');
    const int length = snprintf(lease, sizeof lease, "%" PRIx64, (uint64_t)kv->lease);
    if (!slash || slash == kv->key || kv->lease == 0 || strncmp(slash + 1, lease, (size_t)length) != 0)
        return false;
    const char *nonce = slash + 1 + length;
    return *nonce == '\0' || (*nonce == '-' && strlen(nonce) == 17 && strspn(nonce + 1, "0123456789abcdef") == 16);
}

simba_owner simba__etcd_owner(const etcd_kv *kv)
{
    simba_owner owner = {.ttl_at_ms = INT64_MAX, .transition_at_ms = INT64_MAX, .token = kv->create_revision};
    const char *slash = strrchr(kv->key, '/');
    const char *name = slash ? slash + 1 : kv->key;
    size_t length;
    /* Go's Mutex stores no value, and the value of an Election is whatever its leader proclaims. */
    if (!simba__json_base64(kv->value, owner.id, sizeof owner.id, &length) || length == 0 || strlen(owner.id) != length)
        snprintf(owner.id, sizeof owner.id, "%.*s", simba__text_cut(name, SIMBA_ID_MAX), name[0] ? name : "?");
    return owner;
}

/* --- requests ----------------------------------------------------------------------------------------------- */

static void put_bytes(simba__buffer *out, const char *name, const char *bytes, size_t length)
{
    char text[SIMBA__BASE64_SIZE(ETCD_KEY_MAX + 1)];
    SIMBA__ASSERT(length <= ETCD_KEY_MAX + 1);
    simba__json_put(out, "%s:%s", name, simba__base64(bytes, length, text));
}

void simba__etcd_put_key(simba__buffer *out, const char *key)
{
    put_bytes(out, "key", key, strlen(key));
}

static void put_range_end(simba__buffer *out, const char *folder)
{
    char end[ETCD_KEY_MAX + 1];
    size_t length = strlen(folder);
    strcpy(end, folder);
    while (length > 0 && (unsigned char)end[length - 1] == 0xff)
        length--;
    if (length > 0)
        end[length - 1] = (char)((unsigned char)end[length - 1] + 1);
    simba__json_put(out, ",");
    put_bytes(out, "range_end", length > 0 ? end : "", length > 0 ? length : 1);
}

/* From the text itself to the first key that does not begin with it. An empty one stands for all keys: a zero byte is the lowest key, and
 * as the end it stands for none. */
void simba__etcd_put_folder(simba__buffer *out, const char *folder)
{
    put_bytes(out, "key", folder, folder[0] ? strlen(folder) : 1);
    put_range_end(out, folder);
}

void simba__etcd_put_page(simba__buffer *out, const char *folder, const char *last)
{
    if (!last[0]) {
        simba__etcd_put_folder(out, folder);
        return;
    }
    put_bytes(out, "key", last, strlen(last) + 1); /* the zero byte makes it the next key */
    put_range_end(out, folder);
}

static void put_own(simba__buffer *out, const etcd_names *names)
{
    simba__json_put(out, "{'request_range':{");
    simba__etcd_put_key(out, names->own);
    simba__json_put(out, "}}");
}

static void put_first(simba__buffer *out, const etcd_names *names)
{
    put_own(out, names);
    simba__json_put(out, ",{'request_range':{");
    simba__etcd_put_folder(out, names->folder);
    simba__json_put(out, ",'limit':'%lld','sort_target':'CREATE','sort_order':'ASCEND'}}]", (long long)ETCD_PAGE);
}

void simba__etcd_put_enter(simba__buffer *out, const etcd_names *names, int64_t lease, const char *id)
{
    simba__json_put(out, "{'compare':[{");
    simba__etcd_put_key(out, names->own);
    simba__json_put(out, ",'target':'CREATE','result':'EQUAL','create_revision':'0'}],'success':[{'request_put':{");
    simba__etcd_put_key(out, names->own);
    simba__json_put(out, ",");
    put_bytes(out, "value", id, strlen(id));
    simba__json_put(out, ",'lease':'%lld'}},", (long long)lease);
    put_first(out, names);
    simba__json_put(out, ",'failure':[");
    put_first(out, names);
    simba__json_put(out, "}");
}

void simba__etcd_put_look(simba__buffer *out, const etcd_names *names, uint64_t below)
{
    simba__json_put(out, "{'success':[");
    put_own(out, names);
    if (below > 1) {
        simba__json_put(out, ",{'request_range':{");
        simba__etcd_put_folder(out, names->folder);
        simba__json_put(out,
                        ",'limit':'%lld','sort_target':'CREATE','sort_order':'DESCEND','max_create_revision':'%lld'}}",
                        (long long)ETCD_PAGE, (long long)below - 1);
    }
    simba__json_put(out, "]}");
}

void simba__etcd_put_delete(simba__buffer *out, const char *key, const char *result, uint64_t create_revision)
{
    simba__json_put(out, "{'compare':[{");
    simba__etcd_put_key(out, key);
    simba__json_put(out, ",'target':'CREATE','result':%s,'create_revision':'%lld'}],'success':[", result,
                    (long long)create_revision);
    simba__json_put(out, "{'request_delete_range':{");
    simba__etcd_put_key(out, key);
    simba__json_put(out, "}}]}");
}

/* --- answers ------------------------------------------------------------------------------------------------ */

static bool read_count(simba__json json, uint64_t *ret_number)
{
    int64_t number;
    if (!simba__json_int(json, &number) || number < 0)
        return false;
    *ret_number = (uint64_t)number;
    return true;
}

bool simba__etcd_read_header(simba__json answer, uint64_t *ret_revision, uint64_t *ret_term)
{
    const simba__json header = simba__json_get(answer, "header");
    return read_count(simba__json_get(header, "revision"), ret_revision) &&
           read_count(simba__json_get(header, "raft_term"), ret_term) && *ret_revision > 0 && *ret_term > 0;
}

bool simba__etcd_read_kv(simba__json json, etcd_kv *ret_kv)
{
    size_t length;
    ret_kv->value = simba__json_get(json, "value");
    if (!simba__json_base64(simba__json_get(json, "key"), ret_kv->key, sizeof ret_kv->key, &length) ||
        strlen(ret_kv->key) != length)
        ret_kv->key[0] = '\0';
    return read_count(simba__json_get(json, "create_revision"), &ret_kv->create_revision) &&
           read_count(simba__json_get(json, "mod_revision"), &ret_kv->mod_revision) &&
           simba__json_int(simba__json_get(json, "lease"), &ret_kv->lease) && ret_kv->create_revision > 0;
}

simba__json simba__etcd_response_kvs(simba__json answer, unsigned nth, bool *ret_more)
{
    const simba__json responses = simba__json_get(answer, "responses");
    simba__json response = {0};
    for (unsigned i = 0; i <= nth; i++)
        if (!simba__json_next(responses, &response))
            return (simba__json){0};
    const simba__json range = simba__json_get(response, "response_range");
    *ret_more = simba__json_bool(simba__json_get(range, "more"));
    return simba__json_get(range, "kvs");
}

/* Our own key, as the nth answer has it. */
static bool read_own(simba__json answer, unsigned nth, const etcd_names *names, etcd_sight *sight)
{
    bool more = false;
    uint64_t term;
    etcd_kv kv;
    simba__json element = {0};
    const simba__json kvs = simba__etcd_response_kvs(answer, nth, &more);
    *sight = (etcd_sight){0};
    if (!simba__etcd_read_header(answer, &sight->revision, &term))
        return false;
    if (!simba__json_next(kvs, &element))
        return true;
    if (!simba__etcd_read_kv(element, &kv) || strcmp(kv.key, names->own) != 0)
        return false;
    sight->own = kv.create_revision;
    return true;
}

bool simba__etcd_read_enter(simba__json answer, const etcd_names *names, etcd_sight *ret_sight)
{
    const unsigned offset = simba__json_bool(simba__json_get(answer, "succeeded")) ? 1 : 0;
    bool more = false;
    bool found = false;
    etcd_kv kv;
    if (!read_own(answer, offset, names, ret_sight) || ret_sight->own == 0)
        return false;
    const simba__json kvs = simba__etcd_response_kvs(answer, offset + 1, &more);
    for (simba__json element = {0}; !found && simba__json_next(kvs, &element);) {
        if (!simba__etcd_read_kv(element, &kv))
            return false;
        if (!simba__etcd_contends(names->folder, kv.key))
            continue;
        if (!ret_sight->has_first)
            ret_sight->first = kv;
        ret_sight->has_first = true;
        found = kv.create_revision == ret_sight->own;
        if (found)
            break;
        ret_sight->before = kv.create_revision;
        strcpy(ret_sight->before_key, kv.key);
    }
    if (!found) { /* it stands behind the page */
        ret_sight->before = 0;
        ret_sight->rest = ret_sight->own;
    }
    return found || more;
}

bool simba__etcd_read_look(simba__json answer, const etcd_names *names, etcd_sight *ret_sight)
{
    bool more = false;
    uint64_t lowest = 0;
    etcd_kv kv;
    if (!read_own(answer, 0, names, ret_sight))
        return false;
    const simba__json kvs = simba__etcd_response_kvs(answer, 1, &more);
    for (simba__json element = {0}; simba__json_next(kvs, &element);) {
        if (!simba__etcd_read_kv(element, &kv) || (lowest > 0 && kv.create_revision > lowest))
            return false;
        lowest = kv.create_revision;
        if (!simba__etcd_contends(names->folder, kv.key))
            continue;
        if (ret_sight->before == 0) {
            ret_sight->before = kv.create_revision;
            strcpy(ret_sight->before_key, kv.key);
        }
        ret_sight->has_first = !more;
        ret_sight->first = kv;
    }
    ret_sight->rest = more && ret_sight->before == 0 ? lowest : 0;
    return ret_sight->own == 0 || ret_sight->before < ret_sight->own;
}

void simba__etcd_read_fault(simba__json answer, etcd_fault *ret_fault)
{
    const simba__json inner = simba__json_get(answer, "error"); /* of a stream: an object; of 3.4: the message again */
    const simba__json error = inner.at && inner.at[0] == '{' ? inner : answer;
    simba__json code = simba__json_get(error, "code");
    *ret_fault = (etcd_fault){.code = -1};
    code = code.at ? code : simba__json_get(error, "grpc_code");
    if (code.at)
        simba__json_int(code, &ret_fault->code);
    if (!simba__json_text(simba__json_get(error, "message"), ret_fault->text, sizeof ret_fault->text))
        snprintf(ret_fault->text, sizeof ret_fault->text, "etcd answers with an error that it does not explain");
}

/* --- notes -------------------------------------------------------------------------------------------------- */

#define VERSION "1 "

bool simba__etcd_note_read(const char *data, size_t length, etcd_note *ret_note)
{
    const size_t version = strlen(VERSION);
    etcd_note note = {0};
    uint64_t ms = 0;
    if (length > ETCD_STORED_NOTE_MAX || length < version || memcmp(data, VERSION, version) != 0)
        return false;
    const char *end = data + length;
    const char *at = simba__digits_read(data + version, end, ' ', &note.token);
    at = at ? simba__digits_read(at, end, ' ', &note.number) : NULL;
    at = at ? simba__digits_read(at, end, '\n', &ms) : NULL;
    if (!at || end - at > SIMBA_NOTE_MAX || ms > (uint64_t)INT64_C(253402300799999) || note.token > INT64_MAX)
        return false;
    note.written_at_ms = (int64_t)ms;
    note.bytes = at;
    note.size = (size_t)(end - at);
    *ret_note = note;
    return true;
}

size_t simba__etcd_note_write(const etcd_note *note, char ret_data[ETCD_STORED_NOTE_MAX])
{
    SIMBA__ASSERT(note->size <= SIMBA_NOTE_MAX);
    const int head = snprintf(ret_data, ETCD_STORED_NOTE_MAX, VERSION "%" PRIu64 " %" PRIu64 " %" PRId64 "\n",
                              note->token, note->number, note->written_at_ms);
    SIMBA__ASSERT(head > 0 && (size_t)head + note->size <= ETCD_STORED_NOTE_MAX);
    if (note->size > 0)
        memcpy(ret_data + head, note->bytes, note->size);
    return (size_t)head + note->size;
}
