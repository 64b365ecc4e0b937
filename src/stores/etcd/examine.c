/* EXAMINE: what the administrator of this etcd should know. Only the server that answers is asked; its version counts for the leases
 * if it leads, or may come to lead. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/etcd/etcd.h"

enum { OFFSET_MS = 2000 };

static bool find(etcd_op *op, simba_verdict verdict, const char *what, const char *text, const char *remedy)
{
    simba_host *host = op->store->host;
    const simba_finding finding = {sizeof finding, verdict, what, text, remedy};
    const int rc = op->request ? host->found(host, op->request, &finding) : 0;
    if (rc == 0)
        return true;
    simba__etcd_fail(op, rc, "out of memory");
    simba__etcd_op_end(op);
    return false;
}

typedef struct etcd_version {
    unsigned major, minor, patch;
} etcd_version;

/* The first version of each minor one that has a fault no more. Before the first of them no version has the repair, and after the last all
 * have. */
static bool lacks(etcd_version version, const etcd_version *repaired, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (version.major < repaired[i].major ||
            (version.major == repaired[i].major && version.minor < repaired[i].minor))
            return true;
        else if (version.major == repaired[i].major && version.minor == repaired[i].minor)
            return version.patch < repaired[i].patch;
    return false;
}

static bool examine_version(etcd_op *op, const char *text)
{
    static const etcd_version ended_early[] = {{3, 4, 31}, {3, 5, 13}};
    static const etcd_version confirmed_dead[] = {{3, 4, 38}, {3, 5, 23}, {3, 6, 5}};
    const char *remedy = "Update etcd to 3.4.38, 3.5.23, 3.6.5 or later.";
    char words[200];
    etcd_version version;
    if (sscanf(text, "%3u.%3u.%5u", &version.major, &version.minor, &version.patch) != 3)
        return find(op, SIMBA_VERDICT_WARNING, "version", "The server does not tell the version of etcd.", NULL);
    if (lacks(version, ended_early, 2))
        snprintf(words, sizeof words,
                 "etcd %u.%u.%u may end leases before their time, and confirm leases that have ended.", version.major,
                 version.minor, version.patch);
    else if (lacks(version, confirmed_dead, 3))
        snprintf(words, sizeof words, "etcd %u.%u.%u may confirm leases that have ended.", version.major, version.minor,
                 version.patch);
    else
        return find(op, SIMBA_VERDICT_OK, "version", text, NULL);
    return find(op, SIMBA_VERDICT_WARNING, "version", words, remedy);
}

static bool examine_clock(etcd_op *op, int64_t date_s)
{
    const int64_t offset_ms = date_s * 1000 - simba__etcd_now_ms(op->store);
    char words[120];
    if (date_s == 0 || llabs(offset_ms) <= OFFSET_MS)
        return true;
    snprintf(words, sizeof words, "The clocks of etcd and of this machine differ by %lld ms.", (long long)offset_ms);
    return find(op, SIMBA_VERDICT_WARNING, "etcd-clock", words,
                "Leases do not depend on it, but logs will be hard to compare.");
}

static bool examine_login(etcd_op *op)
{
    const etcd_store *store = op->store;
    if (!store->options.user)
        return find(op, store->options.tls ? SIMBA_VERDICT_OK : SIMBA_VERDICT_WARNING, "login",
                    store->options.tls
                        ? "The URL names no user."
                        : "The URL names no user: everybody who reaches etcd can take and release mutexes.",
                    store->options.tls ? NULL : "Enable auth in etcd, and name a user in the URL; see docs/etcd.md.");
    if (store->calls.no_auth)
        return find(op, SIMBA_VERDICT_WARNING, "login", "The URL names a user, and etcd has authentication turned off.",
                    "Run `etcdctl auth enable`.");
    return find(op, SIMBA_VERDICT_OK, "login", "etcd has accepted the user.", NULL);
}

static void on_status(etcd_op *op, const etcd_answer *answer)
{
    char version[32] = "";
    char alarm[128] = "";
    simba__json error = {0};
    if (!simba__etcd_good(op, answer))
        return;
    simba__json_text(simba__json_get(answer->json, "version"), version, sizeof version);
    if (!find(op, SIMBA_VERDICT_OK, "gateway", "etcd's JSON gateway answers.", NULL) || !examine_version(op, version) ||
        !examine_login(op) || !examine_clock(op, answer->date_s))
        return;
    if (simba__json_next(simba__json_get(answer->json, "errors"), &error) &&
        simba__json_text(error, alarm, sizeof alarm) &&
        !find(op, SIMBA_VERDICT_BROKEN, "alarm", alarm, "See `etcdctl alarm list`."))
        return;
    simba__etcd_finish(op, SIMBA_NOT_MINE, NULL);
}

void simba__etcd_examine(etcd_store *store, simba_request *request)
{
    etcd_op *op = simba__etcd_op_new(store, sizeof *op, request);
    if (!op)
        return;
    simba__json_put(&op->body, "{}");
    simba__etcd_call(op, "/v3/maintenance/status", on_status);
}
