/* LIST, EXAMINE and PREPARE, which go over all servers, one after the other. EXAMINE asks each what it says of itself (INFO).
 * Then it looks for keys of an earlier version: strings that end like a grant or a note. LIST and PREPARE walk over the keys of each
 * server with SCAN, which may show a key twice, and then run a script for every mutex that they have found, ROWS at a time, through the
 * same code as every request. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/redis/redis.h"
#include "util/error.h"
#include "util/mem.h"

enum { ROWS = 128, PAGES_EXAMINED = 100, NAMES_SHOWN = 3 };

typedef struct redis_walk redis_walk;

struct redis_walk {
    redis_store *store;
    simba_request *request;
    redis_node *node; /* the server that it is at */
    bool expired;     /* its time is over, or it has failed: ask nothing more */
    simba_error error;
    char cursor[24];
    char **names;
    size_t count, capacity;
    size_t at;    /* it has asked for the names before this one */
    size_t busy;  /* calls in flight */
    size_t owned; /* PREPARE: mutexes that somebody has */
    size_t pages; /* EXAMINE: of keys. It looks at so many, because the server may be full of keys of others */
};

/* A mutex that is looked at. */
typedef struct redis_row_request {
    simba_request request; /* first */
    redis_walk *walk;
} redis_row_request;

static void walk_free(redis_walk *walk)
{
    walk->store->walks--;
    for (size_t i = 0; i < walk->count; i++)
        simba__free(walk->names[i]);
    simba__free(walk->names);
    simba__free(walk);
}

/* Complete the request, once nothing of it is in flight. */
static void end_if_idle(redis_walk *walk)
{
    simba_host *host = walk->store->host;
    simba_request *request = walk->request;
    const simba_error error = walk->error;
    if (walk->busy > 0)
        return;
    request->backend_data = NULL;
    walk_free(walk);
    if (error.code < 0)
        host->fail(host, request, error.code, "%s", error.text);
    else
        host->complete(host, request);
}

static void walk_fail(redis_walk *walk, int code, const char *text)
{
    if (!walk->expired)
        simba__error_set(&walk->error, code, "%s", text);
    walk->expired = true;
}

static bool submit(redis_walk *walk, redis_node *node, simba_request *request,
                   void (*put)(redis_call *call, simba__buffer *out),
                   void (*over)(redis_call *call, const redisReply *reply, const simba_error *error))
{
    redis_call *call = simba__redis_call_new(request, put, over, walk);
    if (!call) {
        walk_fail(walk, SIMBA_ENOMEM, "redis: out of memory");
        return false;
    }
    walk->busy++;
    simba__redis_call_submit(node, call);
    walk->store->host->wake(walk->store->host); /* to send it */
    return true;
}

/* --- a script for every mutex ------------------------------------------------------------------------- */

static void row_over(redis_call *call, const redisReply *reply, const simba_error *error);

static void ask_more(redis_walk *walk)
{
    while (!walk->expired && walk->busy < ROWS && walk->at < walk->count) {
        redis_row_request *row = simba__calloc(1, sizeof *row);
        const char *mutex = walk->names[walk->at++];
        if (!row) {
            walk_fail(walk, SIMBA_ENOMEM, "redis: out of memory");
            break;
        }
        row->walk = walk;
        row->request = (simba_request){.op = walk->request->op, .mutex = mutex};
        if (!submit(walk, simba__redis_node_for(walk->store, mutex), &row->request, simba__redis_put_request, row_over))
            simba__free(row);
    }
    if (walk->busy == 0 && walk->owned > 0 && !walk->expired) {
        char text[160];
        snprintf(text, sizeof text, "redis: %zu mutexes of an earlier simba are held: end its programs, and try again",
                 walk->owned);
        walk_fail(walk, SIMBA_ESTATE, text);
    }
    end_if_idle(walk);
}

static void list_row(redis_walk *walk, const char *mutex, const redisReply *reply)
{
    simba_host *host = walk->store->host;
    redis_row row;
    const int rc = simba__redis_parse_row(reply, &row);
    if (rc < 0) { /* a damaged mutex does not keep the others from being shown */
        const char *why = rc == SIMBA_ECORRUPT ? "its note or the id of its owner cannot be read" : "an odd answer";
        host->log(host, SIMBA_LOG_WARN, "mutex %.*s is not listed: %s", SIMBA_MUTEX_BYTES, mutex, why);
        return;
    }
    const simba_listing listing = {.size = sizeof listing,
                                   .mutex = mutex,
                                   .owner = &row.reply.owner,
                                   .now_ms = row.reply.now_ms,
                                   .waiters = row.waiters,
                                   .note = row.note.bytes,
                                   .note_length = row.note.size,
                                   .note_token = row.note.token,
                                   .note_written_at_ms = row.note.written_at_ms,
                                   .next = row.next};
    if (host->listed(host, walk->request, &listing) < 0)
        walk_fail(walk, SIMBA_ENOMEM, "redis: out of memory");
}

static void row_over(redis_call *call, const redisReply *reply, const simba_error *error)
{
    redis_walk *walk = call->user;
    simba_host *host = walk->store->host;
    simba_request *request = call->request;
    const bool lists = request->op == SIMBA_OP_LIST;
    if (error && error->code == SIMBA_ECORRUPT && lists)
        host->log(host, SIMBA_LOG_WARN, "mutex %.*s is not listed: %s", SIMBA_MUTEX_BYTES, request->mutex, error->text);
    else if (error)
        walk_fail(walk, error->code, error->text);
    else if (lists && !walk->expired)
        list_row(walk, request->mutex, reply);
    else if (!lists && reply->type == REDIS_REPLY_INTEGER)
        walk->owned += reply->integer == 0;
    else if (!lists)
        walk_fail(walk, SIMBA_ECORRUPT, "redis: an odd answer to a script");
    simba__redis_call_free(call);
    simba__free(request);
    walk->busy--;
    ask_more(walk);
}

/* --- the names of the mutexes ------------------------------------------------------------------------- */

/* Add the mutex that a key belongs to, unless the pattern leaves it out. False: out of memory. */
static bool add_name(redis_walk *walk, const char *key)
{
    static const char *const tails[] = {"}", "}:grant", "}:note"};
    const char *pattern = walk->request->op == SIMBA_OP_LIST ? walk->request->mutex : NULL;
    const size_t start = sizeof "simba:{" - 1;
    const size_t length = strlen(key);
    const bool examines = walk->request->op == SIMBA_OP_EXAMINE; /* the lock is a string in each version */
    char name[SIMBA_MUTEX_BYTES + 1] = "";
    if (strncmp(key, "simba:{", start) != 0)
        return true;
    for (size_t i = examines; i < sizeof tails / sizeof *tails && name[0] == '\0'; i++) {
        const size_t tail = strlen(tails[i]);
        if (length > start + tail && length - start - tail < sizeof name && strcmp(key + length - tail, tails[i]) == 0)
            memcpy(name, key + start, length - start - tail);
    }
    if (name[0] == '\0' || (pattern && fnmatch(pattern, name, 0) != 0))
        return true;
    if (walk->count == walk->capacity) {
        const size_t capacity = walk->capacity ? walk->capacity * 2 : 64;
        char **names = simba__realloc(walk->names, capacity * sizeof *names);
        if (!names)
            return false;
        walk->names = names;
        walk->capacity = capacity;
    }
    walk->names[walk->count] = simba__strdup(name);
    return walk->names[walk->count] && ++walk->count > 0;
}

static int by_name(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static void drop_doubles(redis_walk *walk)
{
    size_t kept = 0;
    if (walk->count > 0)
        qsort(walk->names, walk->count, sizeof *walk->names, by_name);
    for (size_t i = 0; i < walk->count; i++)
        if (kept > 0 && strcmp(walk->names[i], walk->names[kept - 1]) == 0)
            simba__free(walk->names[i]);
        else
            walk->names[kept++] = walk->names[i];
    walk->count = kept;
}

static void put_scan(redis_call *call, simba__buffer *out)
{
    redis_walk *walk = call->user;
    if (call->node != walk->node) { /* the map of a cluster has come, or has changed: begin with this server */
        walk->node = call->node;
        strcpy(walk->cursor, "0");
    }
    simba__redis_put(
        out, walk->request->op == SIMBA_OP_EXAMINE ? 8 : 6,
        (const char *const[]){"SCAN", walk->cursor, "MATCH", "simba:{*", "COUNT", "1000", "TYPE", "string"});
}

static bool is_page(const redis_walk *walk, const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && reply->element[0]->type == REDIS_REPLY_STRING &&
           reply->element[0]->len < sizeof walk->cursor && reply->element[1]->type == REDIS_REPLY_ARRAY;
}

static void found(redis_walk *walk, simba_verdict verdict, const char *what, const char *text, const char *remedy)
{
    simba_host *host = walk->store->host;
    const simba_finding finding = {sizeof(simba_finding), verdict, what, text, remedy};
    if (!walk->expired && host->found(host, walk->request, &finding) < 0)
        walk_fail(walk, SIMBA_ENOMEM, "redis: out of memory");
}

/* The end of EXAMINE. */
static void examine_names(redis_walk *walk)
{
    char text[400];
    int length =
        snprintf(text, sizeof text, "This simba refuses the keys of an earlier one, which has made these mutexes:");
    for (size_t i = 0; i < walk->count && i < NAMES_SHOWN; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, "%s %s", i > 0 ? "," : "", walk->names[i]);
    snprintf(text + length, sizeof text - (size_t)length, walk->count > NAMES_SHOWN ? ", and others." : ".");
    if (walk->count > 0)
        found(walk, SIMBA_VERDICT_WARNING, "keys", text, "End the programs of that version, then run `simba init`.");
    end_if_idle(walk);
}

static void page_over(redis_call *call, const redisReply *reply, const simba_error *error)
{
    redis_walk *walk = call->user;
    const bool examines = walk->request->op == SIMBA_OP_EXAMINE;
    bool whole = true;
    simba__redis_call_free(call);
    walk->busy--;
    if (examines &&
        (error || !is_page(walk, reply))) { /* the user may not look, or the server cannot: then nobody knows */
        drop_doubles(walk);
        examine_names(walk);
        return;
    }
    if (error)
        walk_fail(walk, error->code, error->text);
    else if (!is_page(walk, reply))
        walk_fail(walk, SIMBA_ECORRUPT, "redis: an odd answer to SCAN");
    if (walk->expired) {
        end_if_idle(walk);
        return;
    }
    const redisReply *keys = reply->element[1];
    for (size_t i = 0; i < keys->elements && whole; i++)
        whole = keys->element[i]->type != REDIS_REPLY_STRING || add_name(walk, keys->element[i]->str);
    if (!whole)
        walk_fail(walk, SIMBA_ENOMEM, "redis: out of memory");
    strcpy(walk->cursor, reply->element[0]->str);
    redis_node *next = walk->node;
    if (strcmp(walk->cursor, "0") == 0)
        next = walk->node = simba__redis_node_serving(walk->node->next);
    if (whole && next && !(examines && ++walk->pages >= PAGES_EXAMINED) &&
        submit(walk, next, NULL, put_scan, page_over))
        return;
    drop_doubles(walk);
    if (examines)
        examine_names(walk);
    else
        ask_more(walk);
}

/* --- how a server is set up --------------------------------------------------------------------------- */

static void examine_server(redis_walk *walk, const redis_node *node, const char *info)
{
    char version[32];
    char role[16];
    char text[256];
    simba__redis_info(info, "redis_version", version, sizeof version);
    const bool is_master = strcmp(simba__redis_info(info, "role", role, sizeof role), "slave") != 0;
    snprintf(text, sizeof text, "%s is Redis %s, a %s.", node->commands.link.at.where, version,
             is_master ? "master" : "replica");
    if (is_master)
        found(walk, SIMBA_VERDICT_OK, "server", text, NULL);
    else
        found(walk, SIMBA_VERDICT_BROKEN, "server", text, "Replicas take no writes: name the master, or use Sentinel.");
}

static void examine_memory(redis_walk *walk, const char *info)
{
    char policy[32];
    char most[32];
    char text[160];
    simba__redis_info(info, "maxmemory_policy", policy, sizeof policy);
    if (strtol(simba__redis_info(info, "maxmemory", most, sizeof most), NULL, 10) == 0 ||
        strcmp(policy, "noeviction") == 0) {
        found(walk, SIMBA_VERDICT_OK, "eviction", "The server evicts nothing.", NULL);
        return;
    }
    snprintf(text, sizeof text, "maxmemory-policy is %s: the server may throw away a lock that is held.", policy);
    found(walk, SIMBA_VERDICT_WARNING, "eviction", text,
          "Set it to noeviction, or give the locks a server of their own.");
}

static void examine_durability(redis_walk *walk, const char *info)
{
    char enabled[8];
    if (strcmp(simba__redis_info(info, "aof_enabled", enabled, sizeof enabled), "1") == 0)
        found(walk, SIMBA_VERDICT_OK, "durability",
              "appendonly is on; with appendfsync always a server that restarts forgets nothing.", NULL);
    else
        found(walk, SIMBA_VERDICT_WARNING, "durability",
              "appendonly is off: a server that restarts forgets who holds what, while they still hold it.",
              "Set appendonly yes and appendfsync always.");
}

static void examine_replicas(redis_walk *walk, const char *info)
{
    char number[32];
    char text[160];
    const long connected = strtol(simba__redis_info(info, "connected_slaves", number, sizeof number), NULL, 10);
    const long wanted = walk->store->options.replicas;
    snprintf(text, sizeof text, "%ld connected; a grant waits for %ld of them.", connected, wanted);
    if (connected < wanted)
        found(walk, SIMBA_VERDICT_BROKEN, "replicas", text,
              "Connect the replicas, or lower replicas=: nothing can be granted.");
    else if (connected > 0 && wanted == 0)
        found(walk, SIMBA_VERDICT_WARNING, "replicas", text,
              "A failover may lose the latest grants; replicas=1 in the URL prevents most of that.");
    else
        found(walk, SIMBA_VERDICT_OK, "replicas", text, NULL);
}

static void put_info(redis_call *call, simba__buffer *out)
{
    (void)call;
    simba__redis_put(out, 1, (const char *const[]){"INFO"});
}

static void info_over(redis_call *call, const redisReply *reply, const simba_error *error)
{
    redis_walk *walk = call->user;
    redis_node *node = call->node;
    char text[256];
    simba__redis_call_free(call);
    walk->busy--;
    if (error && error->code == SIMBA_EPERM && simba__redis_conn_ready(&node->commands)) {
        snprintf(text, sizeof text, "%s refuses INFO: %s", node->commands.link.at.where,
                 node->store->options.restart_wait
                     ? "a server that has just restarted, and may have forgotten leases, is not waited for."
                     : "nothing is known of how it is set up.");
        found(walk, SIMBA_VERDICT_WARNING, "server", text, "Permit the command to simba's user: +info.");
    } else if (error) {
        walk_fail(walk, error->code, error->text);
    } else if (reply->type != REDIS_REPLY_STRING) {
        walk_fail(walk, SIMBA_ECORRUPT, "redis: an odd answer to INFO");
    } else {
        examine_server(walk, node, reply->str);
        examine_memory(walk, reply->str);
        examine_durability(walk, reply->str);
        examine_replicas(walk, reply->str);
    }
    redis_node *next = walk->expired ? NULL : simba__redis_node_serving(node->next);
    if (next && submit(walk, next, NULL, put_info, info_over))
        return;
    walk->node = simba__redis_node_for(walk->store, NULL);
    if (walk->expired || !submit(walk, walk->node, NULL, put_scan, page_over))
        end_if_idle(walk);
}

/* --- the store's side --------------------------------------------------------------------------------- */

void simba__redis_walk(redis_store *store, simba_request *request)
{
    redis_walk *walk = simba__calloc(1, sizeof *walk);
    if (!walk) {
        store->host->fail(store->host, request, SIMBA_ENOMEM, "redis: out of memory");
        return;
    }
    request->backend_data = walk;
    *walk = (redis_walk){.store = store, .request = request, .cursor = "0"};
    store->walks++;
    /* The first that serves; if none is known yet, what stands for them. */
    walk->node = simba__redis_node_for(store, NULL);
    const bool examines = request->op == SIMBA_OP_EXAMINE;
    if (!submit(walk, walk->node, NULL, examines ? put_info : put_scan, examines ? info_over : page_over))
        end_if_idle(walk);
}

void simba__redis_walk_expire(simba_request *request)
{
    redis_walk *walk = request->backend_data;
    char text[200];
    snprintf(text, sizeof text, "redis %s: no answer in time",
             walk->node ? walk->node->commands.link.at.where : "server");
    walk_fail(walk, SIMBA_ETIMEDOUT, text);
}

/* --- unasked ------------------------------------------------------------------------------------------ */

/* The value of a setting; NULL: the answer, which is a list of names and values, has none. */
static const char *setting(const redisReply *reply, const char *name)
{
    for (size_t i = 0; i + 1 < reply->elements; i += 2)
        if (reply->element[i]->type == REDIS_REPLY_STRING && reply->element[i + 1]->type == REDIS_REPLY_STRING &&
            strcmp(reply->element[i]->str, name) == 0)
            return reply->element[i + 1]->str;
    return NULL;
}

/* A pattern, because only Redis 7 takes two names: appendonly and save, and little else. */
static void put_settings(redis_call *call, simba__buffer *out)
{
    (void)call;
    simba__redis_put(out, 3, (const char *const[]){"CONFIG", "GET", "[as][pa][pv]e*"});
}

/* An error: the user may not ask, or the service has no such command. Then nobody knows. */
static void settings_over(redis_call *call, const redisReply *reply, const simba_error *error)
{
    const redis_node *node = call->node;
    simba_host *host = node->store->host;
    const char *appendonly = error ? NULL : setting(reply, "appendonly");
    const char *save = error ? NULL : setting(reply, "save");
    simba__redis_call_free(call);
    if (appendonly && save && strcmp(appendonly, "no") == 0 && save[0] == '\0')
        host->forgets(
            host,
            "redis %s: the server keeps nothing on disk (appendonly no, save \"\"): if it restarts, it forgets who "
            "holds what, and two may run at once; set appendonly yes and appendfsync always",
            node->commands.link.at.where);
}

void simba__redis_ask_durability(redis_node *node)
{
    redis_call *call = simba__redis_call_new(NULL, put_settings, settings_over, NULL);
    if (call)
        simba__redis_call_submit(node, call);
}
