/* What most servers of a model etcd have agreed on: keys, revisions and leases. Grants and releases are reported to check.c: the key of
 * a mutex with the lowest create_revision leads. */
#include <stdlib.h>
#include <string.h>

#include "sim/etcd_model.h"

/* --- who leads ---------------------------------------------------------------------------------------- */

static bool contends(const char *name, const char *mutex)
{
    const size_t length = strlen(mutex);
    return strncmp(name, mutex, length) == 0 && name[length] == '/' && !strchr(name + length + 1, '/');
}

const ekv *ekv_find(const sim *s, const char *name)
{
    for (unsigned i = 0; i < EKV_KEYS; i++)
        if (etcd_of(s)->key[i].created && strcmp(etcd_of(s)->key[i].name, name) == 0)
            return &etcd_of(s)->key[i];
    return NULL;
}

const ekv *ekv_first(const sim *s, unsigned mutex)
{
    const etcd_state *state = etcd_of(s);
    const ekv *first = NULL;
    for (unsigned i = 0; i < EKV_KEYS; i++) {
        const ekv *kv = &state->key[i];
        if (kv->created && contends(kv->name, sim_mutex_name(mutex)) && (!first || kv->created < first->created))
            first = kv;
    }
    return first;
}

/* The name of a key ends with the nonce of its contender. */
static unsigned handle_of(const sim *s, unsigned mutex, const ekv *kv)
{
    const char *nonce = strrchr(kv->name, '-');
    for (unsigned i = 0; nonce && i < s->plan->contenders; i++) {
        const sim_handle *handle = &s->handle[i];
        if (handle->mutex == mutex && handle->running && strlen(handle->id) == kv->length &&
            memcmp(handle->id, kv->value, kv->length) == 0 &&
            strtoull(nonce + 1, NULL, 16) == handle->candidate.machine.nonce)
            return i;
    }
    return SIM_NOBODY;
}

static void leaders(const sim *s, int64_t ret_leaders[SIM_MUTEXES])
{
    memset(ret_leaders, 0, SIM_MUTEXES * sizeof *ret_leaders);
    for (unsigned m = 0; m < s->plan->mutexes; m++) {
        const ekv *first = ekv_first(s, m);
        ret_leaders[m] = first ? first->created : 0;
    }
}

static void compare_leaders(sim *s, const int64_t before[SIM_MUTEXES])
{
    for (unsigned m = 0; m < s->plan->mutexes; m++) {
        const ekv *first = ekv_first(s, m);
        const int64_t after = first ? first->created : 0;
        if (before[m] == after)
            continue;
        if (before[m])
            check_freed(s, m);
        if (first) {
            const unsigned handle = handle_of(s, m, first);
            check_granted(s, m, handle, (uint64_t)after, handle == SIM_NOBODY && !ego_is(s, first->lease));
        }
    }
}

/* --- writes ------------------------------------------------------------------------------------------- */

static void note(sim *s, bool deleted, const ekv *kv)
{
    etcd_state *state = etcd_of(s);
    if (state->events == state->event_capacity) {
        state->event_capacity = state->event_capacity ? 2 * state->event_capacity : 256;
        if (!(state->event = realloc(state->event, state->event_capacity * sizeof *state->event)))
            abort();
    }
    sim_tell(s, "revision %lld %s %s", (long long)kv->modified, deleted ? "delete" : "put", kv->name);
    state->event[state->events++] = (ekv_event){deleted, s->now, *kv};
}

static ekv *find_place(sim *s, const char *name)
{
    etcd_state *state = etcd_of(s);
    ekv *kv = (ekv *)(uintptr_t)ekv_find(s, name);
    for (unsigned i = 0; !kv && i < EKV_KEYS; i++)
        if (!state->key[i].created)
            kv = &state->key[i];
    if (!kv || strlen(name) >= sizeof kv->name)
        abort();
    return kv;
}

/* What a write does; all writes of a transaction have one revision. */
static void write(sim *s, int64_t revision, const ekv *put)
{
    ekv *kv = find_place(s, put->name);
    const ekv before = *kv;
    *kv = *put;
    kv->created = before.created ? before.created : revision;
    kv->version = before.created ? before.version + 1 : 1;
    kv->modified = revision;
    note(s, false, kv);
}

static void erase(sim *s, int64_t revision, ekv *kv)
{
    ekv gone = {.modified = revision};
    strcpy(gone.name, kv->name);
    kv->created = 0;
    note(s, true, &gone);
}

/* Around the writes of a transaction. */
static void agree(sim *s, const int64_t before[SIM_MUTEXES], size_t events)
{
    etcd_state *state = etcd_of(s);
    if (state->events == events)
        return;
    state->revision = state->event[events].kv.modified;
    compare_leaders(s, before);
    etcd_agreed(s);
}

void ekv_enter(sim *s, const char *name, int64_t lease)
{
    etcd_state *state = etcd_of(s);
    const size_t events = state->events;
    int64_t before[SIM_MUTEXES];
    ekv put = {.lease = lease};
    strcpy(put.name, name);
    leaders(s, before);
    write(s, state->revision + 1, &put);
    agree(s, before, events);
}

void ekv_delete(sim *s, const char *name)
{
    etcd_state *state = etcd_of(s);
    const size_t events = state->events;
    int64_t before[SIM_MUTEXES];
    ekv *kv = (ekv *)(uintptr_t)ekv_find(s, name);
    leaders(s, before);
    if (kv)
        erase(s, state->revision + 1, kv);
    agree(s, before, events);
}

/* --- leases ------------------------------------------------------------------------------------------- */

ekv_lease *ekv_find_lease(sim *s, int64_t id)
{
    for (unsigned i = 0; id && i < EKV_LEASES; i++)
        if (etcd_of(s)->lease[i].id == id)
            return &etcd_of(s)->lease[i];
    return NULL;
}

ekv_lease *ekv_grant(sim *s, int64_t id, int64_t ttl_s)
{
    etcd_state *state = etcd_of(s);
    if (ekv_find_lease(s, id))
        return NULL;
    for (unsigned i = 0; i < EKV_LEASES; i++)
        if (!state->lease[i].id) {
            ttl_s = ttl_s < 2 * ETCD_PROTOCOL_S ? 2 * ETCD_PROTOCOL_S : ttl_s;
            state->lease[i] = (ekv_lease){id, ttl_s, store_clock(s) + ttl_s * SIM_S};
            sim_tell(s, "lease %llx granted", (unsigned long long)id);
            etcd_plan_expiry(s);
            return &state->lease[i];
        }
    abort();
}

void ekv_revoke(sim *s, int64_t id)
{
    etcd_state *state = etcd_of(s);
    const size_t events = state->events;
    int64_t before[SIM_MUTEXES];
    leaders(s, before);
    ekv_find_lease(s, id)->id = 0;
    sim_tell(s, "lease %llx revoked", (unsigned long long)id);
    for (unsigned i = 0; i < EKV_KEYS; i++)
        if (state->key[i].created && state->key[i].lease == id)
            erase(s, state->revision + 1, &state->key[i]);
    agree(s, before, events);
}

void ekv_forget_since(sim *s, int64_t at)
{
    etcd_state *state = etcd_of(s);
    size_t kept = 0;
    while (kept < state->events && state->event[kept].at <= at)
        kept++;
    s->checks.lost_writes |= kept < state->events;
    state->events = kept;
    memset(state->key, 0, sizeof state->key);
    for (size_t i = 0; i < kept; i++) {
        const ekv_event *event = &state->event[i];
        if (event->deleted)
            ((ekv *)(uintptr_t)ekv_find(s, event->kv.name))->created = 0;
        else
            *find_place(s, event->kv.name) = event->kv;
    }
}

/* --- ranges ------------------------------------------------------------------------------------------- */

static void read_name(simba__json value, char out[EKV_NAME])
{
    size_t length;
    if (!simba__json_base64(value, out, EKV_NAME, &length))
        abort();
    if (length == 1 && out[0] == '\0')
        strcpy(out, "\1");
}

static int64_t number(simba__json object, const char *name)
{
    int64_t value;
    if (!simba__json_int(simba__json_get(object, name), &value))
        abort();
    return value;
}

static bool is_text(simba__json object, const char *name, const char *text)
{
    char value[32];
    return simba__json_text(simba__json_get(object, name), value, sizeof value) && strcmp(value, text) == 0;
}

ekv_range ekv_range_of(simba__json request)
{
    ekv_range range;
    read_name(simba__json_get(request, "key"), range.from);
    read_name(simba__json_get(request, "range_end"), range.end);
    return range;
}

bool ekv_matches(const ekv_range *range, const char *name)
{
    if (!range->end[0])
        return strcmp(name, range->from) == 0;
    return strcmp(name, range->from) >= 0 && (strcmp(range->end, "\1") == 0 || strcmp(name, range->end) < 0);
}

static void put_name(simba__buffer *out, const char *member, const char *bytes, size_t length)
{
    char text[SIMBA__BASE64_SIZE(EKV_VALUE)];
    simba__json_put(out, "%s:%s,", member, simba__base64(bytes, length, text));
}

static void put_number(simba__buffer *out, const char *member, int64_t value)
{
    if (value)
        simba__json_put(out, "%s:'%lld',", member, (long long)value);
}

void ekv_put(simba__buffer *out, const ekv *kv)
{
    simba__json_put(out, "{");
    put_name(out, "key", kv->name, strlen(kv->name));
    if (kv->length)
        put_name(out, "value", kv->value, kv->length);
    put_number(out, "create_revision", kv->created);
    put_number(out, "version", kv->version);
    put_number(out, "lease", kv->lease);
    simba__json_put(out, "'mod_revision':'%lld'}", (long long)kv->modified);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const ekv *const *)a)->name, (*(const ekv *const *)b)->name);
}

static int by_created(const void *a, const void *b)
{
    const int64_t left = (*(const ekv *const *)a)->created, right = (*(const ekv *const *)b)->created;
    return left < right ? -1 : left > right;
}

void ekv_get(sim *s, simba__json request, simba__buffer *out)
{
    const etcd_state *state = etcd_of(s);
    const ekv_range range = ekv_range_of(request);
    const ekv *found[EKV_KEYS];
    const int64_t most = number(request, "max_create_revision"), limit = number(request, "limit");
    const bool descends = is_text(request, "sort_order", "DESCEND");
    size_t count = 0;
    for (unsigned i = 0; i < EKV_KEYS; i++)
        if (state->key[i].created && ekv_matches(&range, state->key[i].name) &&
            (!most || state->key[i].created <= most))
            found[count++] = &state->key[i];
    qsort(found, count, sizeof *found, is_text(request, "sort_target", "CREATE") ? by_created : by_name);
    const size_t shown = limit > 0 && (size_t)limit < count ? (size_t)limit : count;
    if (shown > 0)
        simba__json_put(out, "'kvs':[");
    for (size_t i = 0; i < shown; i++) {
        simba__buffer_put(out, ",", i > 0);
        ekv_put(out, found[descends ? count - 1 - i : i]);
    }
    if (shown > 0)
        simba__json_put(out, "],");
    if (shown < count)
        simba__json_put(out, "'more':true,");
    simba__json_put(out, "'count':'%lld'", (long long)count);
}

/* --- transactions ------------------------------------------------------------------------------------- */

static bool compares(int64_t is, simba__json compare, int64_t wanted)
{
    if (is_text(compare, "result", "GREATER"))
        return is > wanted;
    if (is_text(compare, "result", "LESS"))
        return is < wanted;
    if (is_text(compare, "result", "NOT_EQUAL"))
        return is != wanted;
    return is == wanted; /* the default */
}

/* For all keys of its range; for a key that there is not, everything is 0. */
static bool holds(sim *s, simba__json compare)
{
    const etcd_state *state = etcd_of(s);
    const ekv_range range = ekv_range_of(compare);
    bool any = false;
    for (unsigned i = 0; i <= EKV_KEYS; i++) {
        static const ekv none;
        const ekv *kv = i < EKV_KEYS ? &state->key[i] : &none;
        if (i < EKV_KEYS ? !kv->created || !ekv_matches(&range, kv->name) : any || range.end[0])
            continue;
        any = true;
        bool good;
        if (is_text(compare, "target", "CREATE"))
            good = compares(kv->created, compare, number(compare, "create_revision"));
        else if (is_text(compare, "target", "MOD"))
            good = compares(kv->modified, compare, number(compare, "mod_revision"));
        else if (is_text(compare, "target", "VERSION") || !simba__json_get(compare, "target").at)
            good = compares(kv->version, compare, number(compare, "version"));
        else
            abort(); /* the store asks for no other */
        if (!good)
            return false;
    }
    return true;
}

/* False: it puts a key with a lease that there is not. Then nothing of the transaction is carried out. */
static bool has_leases(sim *s, simba__json ops)
{
    for (simba__json op = {0}; simba__json_next(ops, &op);) {
        const int64_t lease = number(simba__json_get(op, "request_put"), "lease");
        if (lease && !ekv_find_lease(s, lease))
            return false;
    }
    return true;
}

static void put_from(sim *s, int64_t revision, simba__json request)
{
    ekv put = {.lease = number(request, "lease")};
    read_name(simba__json_get(request, "key"), put.name);
    if (!simba__json_base64(simba__json_get(request, "value"), put.value, sizeof put.value, &put.length))
        abort();
    write(s, revision, &put);
}

static int64_t delete_range(sim *s, int64_t revision, simba__json request)
{
    const ekv_range range = ekv_range_of(request);
    int64_t deleted = 0;
    for (unsigned i = 0; i < EKV_KEYS; i++) {
        ekv *kv = &etcd_of(s)->key[i];
        if (kv->created && ekv_matches(&range, kv->name)) {
            erase(s, revision, kv);
            deleted++;
        }
    }
    return deleted;
}

static void carry_out(sim *s, int64_t revision, simba__json op, simba__buffer *out)
{
    const simba__json range = simba__json_get(op, "request_range");
    const simba__json put = simba__json_get(op, "request_put");
    const simba__json deletion = simba__json_get(op, "request_delete_range");
    if (range.at) {
        simba__json_put(out, "{'response_range':{'header':{'revision':'%lld'},", (long long)revision);
        ekv_get(s, range, out);
    } else if (put.at) {
        simba__json_put(out, "{'response_put':{'header':{'revision':'%lld'}", (long long)revision);
        put_from(s, revision, put);
    } else if (deletion.at) {
        simba__json_put(out, "{'response_delete_range':{'header':{'revision':'%lld'}", (long long)revision);
        const int64_t deleted = delete_range(s, revision, deletion);
        if (deleted)
            simba__json_put(out, ",'deleted':'%lld'", (long long)deleted);
    } else {
        abort();
    }
    simba__json_put(out, "}}");
}

bool ekv_txn(sim *s, simba__json request, simba__buffer *out)
{
    etcd_state *state = etcd_of(s);
    const size_t events = state->events;
    const int64_t revision = state->revision + 1;
    int64_t before[SIM_MUTEXES];
    bool succeeded = true, any = false;
    leaders(s, before);
    const simba__json all = simba__json_get(request, "compare");
    for (simba__json compare = {0}; simba__json_next(all, &compare);)
        succeeded = succeeded && holds(s, compare);
    const simba__json ops = simba__json_get(request, succeeded ? "success" : "failure");
    if (!has_leases(s, ops))
        return false;
    if (succeeded)
        simba__json_put(out, "'succeeded':true,");
    simba__json_put(out, "'responses':[");
    for (simba__json op = {0}; simba__json_next(ops, &op); any = true) {
        simba__buffer_put(out, ",", any);
        carry_out(s, revision, op, out);
    }
    simba__json_put(out, "]");
    agree(s, before, events);
    return true;
}
