/* One server of a model etcd and its clients: the JSON gateway over HTTP/1.1. A request goes to the leader, is carried out there if most
 * servers follow, and is answered when this server has heard of that. Between these moments servers fail; so a request is carried out
 * and not answered, or long after its client has gone, or never. Keep-alives do not ask most servers. */
#include <stdlib.h>
#include <string.h>

#include "sim/etcd_model.h"

#define TIMEOUT_NS (7 * SIM_S)

enum { WATCHES = 64 };

typedef struct egate_watch {
    int64_t id;
    ekv_range range;
    int64_t from; /* the revision to begin with */
    bool no_put;
} egate_watch;

/* A connection, as the server sees it. */
typedef struct egate_peer {
    char *in; /* not a whole request yet */
    size_t length;
    uint32_t version; /* tells it from an earlier one on the same wire */
    bool busy;        /* its request is under way */
    bool streams;     /* its request is a stream of watches */
    bool begun;       /* and the head of the answer was sent */
    unsigned watches;
    egate_watch watch[WATCHES];
} egate_peer;

struct etcd_task {
    bool used;
    bool done;    /* it was carried out */
    bool dropped; /* it never will be */
    unsigned server, wire;
    uint32_t boot, wire_version;
    int64_t deadline;
    char path[32];
    simba__buffer body, answer; /* `answer`: behind the header */
    int status, code;
    const char *message;
    int64_t revision;
    size_t upto; /* the server has to have applied these events */
};

/* --- what is said ------------------------------------------------------------------------------------- */

static void put_header(sim *s, unsigned server, int64_t revision, simba__buffer *out)
{
    simba__json_put(
        out, "'header':{'cluster_id':'14841639068965178418','member_id':'%lld','revision':'%lld','raft_term':'%lld'}",
        (long long)server + 1, (long long)revision, (long long)etcd_of(s)->server[server].term);
}

static void say(sim *s, unsigned wire, simba__buffer *out)
{
    if (out->failed)
        abort();
    wire_answer(s, wire, out->data, out->length);
    simba__buffer_free(out);
}

static void put_text(simba__buffer *out, const char *text)
{
    simba__buffer_put(out, text, strlen(text));
}

static void say_answer(sim *s, unsigned wire, int status, const simba__buffer *body)
{
    simba__buffer out = {0};
    char head[128];
    snprintf(head, sizeof head, "HTTP/1.1 %d Some\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
             status, body->length);
    put_text(&out, head);
    simba__buffer_put(&out, body->data, body->length);
    say(s, wire, &out);
}

/* A line of a stream. Ends the stream if it is an error. */
static void say_line(sim *s, unsigned wire, egate_peer *peer, const simba__buffer *line, bool last)
{
    simba__buffer out = {0};
    char size[32];
    if (!peer->begun)
        put_text(&out, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    peer->begun = true;
    snprintf(size, sizeof size, "%zx\r\n", line->length + 1);
    put_text(&out, size);
    simba__buffer_put(&out, line->data, line->length);
    put_text(&out, last ? "\n\r\n0\r\n\r\n" : "\n\r\n");
    say(s, wire, &out);
}

/* --- connections -------------------------------------------------------------------------------------- */

void egate_opened(sim *s, unsigned wire)
{
    egate_peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        abort();
    peer->version = ++etcd_of(s)->peers;
    wire_set_peer(s, wire, peer);
}

void egate_closed(sim *s, unsigned wire)
{
    egate_peer *peer = wire_peer(s, wire);
    free(peer->in);
    free(peer);
    wire_set_peer(s, wire, NULL);
}

void egate_drop_all(sim *s, unsigned server)
{
    for (unsigned wire = wire_next(s, 0); wire; wire = wire_next(s, wire))
        if (wire_server(s, wire) == server)
            wire_drop(s, wire);
}

/* --- watches ------------------------------------------------------------------------------------------ */

static void begin_result(sim *s, unsigned server, int64_t id, simba__buffer *out)
{
    const etcd_state *state = etcd_of(s);
    const size_t applied = state->server[server].applied;
    simba__json_put(out, "{'result':{");
    put_header(s, server, applied > 0 ? state->event[applied - 1].kv.modified : 1, out);
    if (id)
        simba__json_put(out, ",'watch_id':'%lld'", (long long)id);
}

static void say_result(sim *s, unsigned wire, egate_peer *peer, simba__buffer *out)
{
    simba__json_put(out, "}}");
    say_line(s, wire, peer, out, false);
    simba__buffer_free(out);
}

/* Events of one revision come in one message. */
static void tell_watch(sim *s, unsigned wire, egate_peer *peer, const egate_watch *watch, size_t from, size_t to)
{
    const etcd_state *state = etcd_of(s);
    simba__buffer out = {0};
    for (size_t i = from; i < to; i++) {
        const ekv_event *event = &state->event[i];
        if (event->kv.modified < watch->from || !ekv_matches(&watch->range, event->kv.name) ||
            (watch->no_put && !event->deleted))
            continue;
        if (out.length == 0) {
            begin_result(s, wire_server(s, wire), watch->id, &out);
            simba__json_put(&out, ",'events':[");
        } else {
            simba__json_put(&out, ",");
        }
        simba__json_put(&out, "{");
        if (event->deleted)
            simba__json_put(&out, "'type':'DELETE',");
        simba__json_put(&out, "'kv':");
        ekv_put(&out, &event->kv);
        simba__json_put(&out, "}");
    }
    if (out.length == 0)
        return;
    simba__json_put(&out, "]");
    say_result(s, wire, peer, &out);
}

static size_t end_of_revision(const etcd_state *state, size_t from, size_t upto)
{
    size_t to = from + 1;
    while (to < upto && state->event[to].kv.modified == state->event[from].kv.modified)
        to++;
    return to;
}

void egate_apply(sim *s, unsigned index, size_t upto)
{
    etcd_state *state = etcd_of(s);
    etcd_server *server = &state->server[index];
    if (upto > state->events)
        upto = state->events;
    while (server->applied < upto) {
        const size_t from = server->applied, to = end_of_revision(state, from, upto);
        server->applied = to;
        for (unsigned wire = wire_next(s, 0); wire; wire = wire_next(s, wire)) {
            egate_peer *peer = wire_server(s, wire) == index ? wire_peer(s, wire) : NULL;
            for (unsigned w = 0; peer && w < peer->watches; w++)
                tell_watch(s, wire, peer, &peer->watch[w], from, to);
        }
    }
}

void egate_no_leader(sim *s, unsigned server)
{
    static const char text[] = "{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"etcdserver: no leader\"}}";
    for (unsigned wire = wire_next(s, 0); wire; wire = wire_next(s, wire)) {
        egate_peer *peer = wire_server(s, wire) == server ? wire_peer(s, wire) : NULL;
        if (!peer || !peer->streams)
            continue;
        simba__buffer out = {0};
        put_text(&out, text);
        say_line(s, wire, peer, &out, true);
        simba__buffer_free(&out);
        wire_drop(s, wire);
    }
}

static int64_t number(simba__json object, const char *name)
{
    int64_t value;
    if (!simba__json_int(simba__json_get(object, name), &value))
        abort();
    return value;
}

static void create_watch(sim *s, unsigned wire, egate_peer *peer, simba__json request)
{
    const etcd_state *state = etcd_of(s);
    const unsigned server = wire_server(s, wire);
    const size_t applied = state->server[server].applied;
    simba__buffer out = {0};
    egate_watch watch = {
        .id = number(request, "watch_id"), .from = number(request, "start_revision"), .range = ekv_range_of(request)};
    simba__json filter = {0};
    while (simba__json_next(simba__json_get(request, "filters"), &filter))
        watch.no_put |= filter.length == sizeof "\"NOPUT\"" - 1;
    if (!watch.from)
        watch.from = state->revision + 1;
    const bool refused = !s->healed && sim_chance(s, 10);
    begin_result(s, server, refused ? -1 : watch.id, &out); /* since 3.5 it does not say which watch it refuses */
    simba__json_put(&out, ",'created':true");
    if (refused)
        simba__json_put(&out, ",'canceled':true,'cancel_reason':'etcdserver: permission denied'");
    say_result(s, wire, peer, &out);
    if (refused) {
        check_trouble(s, wire_process(s, wire), s->now, s->now + 3 * SIM_S);
        return;
    }
    if (watch.from < state->compacted) {
        begin_result(s, server, watch.id, &out);
        simba__json_put(&out, ",'canceled':true,'compact_revision':'%lld'", (long long)state->compacted);
        say_result(s, wire, peer, &out);
        return;
    }
    if (peer->watches == WATCHES)
        abort();
    peer->watch[peer->watches++] = watch;
    for (size_t from = 0, to; from < applied; from = to) {
        to = end_of_revision(state, from, applied);
        tell_watch(s, wire, peer, &watch, from, to);
    }
}

static void cancel_watch(sim *s, unsigned wire, egate_peer *peer, int64_t id)
{
    simba__buffer out = {0};
    for (unsigned i = 0; i < peer->watches; i++)
        if (peer->watch[i].id == id) {
            peer->watch[i] = peer->watch[--peer->watches];
            begin_result(s, wire_server(s, wire), id, &out);
            simba__json_put(&out, ",'canceled':true");
            say_result(s, wire, peer, &out);
            return;
        }
}

static void take_message(sim *s, unsigned wire, egate_peer *peer, const char *text, size_t length)
{
    simba__json message;
    simba__buffer out = {0};
    if (!simba__json_read(text, length, &message))
        abort();
    const simba__json create = simba__json_get(message, "create_request");
    const simba__json cancel = simba__json_get(message, "cancel_request");
    if (create.at) {
        create_watch(s, wire, peer, create);
    } else if (cancel.at) {
        cancel_watch(s, wire, peer, number(cancel, "watch_id"));
    } else { /* how far the server is */
        begin_result(s, wire_server(s, wire), -1, &out);
        say_result(s, wire, peer, &out);
    }
}

/* The next chunk of a request that streams. False: it has not come yet. */
static bool take_chunk(sim *s, unsigned wire, egate_peer *peer)
{
    const char *line = peer->length ? memmem(peer->in, peer->length, "\r\n", 2) : NULL;
    if (!line)
        return false;
    const size_t head = (size_t)(line - peer->in) + 2, size = strtoul(peer->in, NULL, 16);
    if (peer->length < head + size + 2)
        return false;
    char *text = calloc(1, size + 1);
    if (!text || size == 0)
        abort(); /* the store never ends such a body */
    memcpy(text, peer->in + head, size);
    peer->length -= head + size + 2;
    memmove(peer->in, peer->in + head + size + 2, peer->length);
    take_message(s, wire, peer, text, size);
    free(text);
    return true;
}

/* --- requests ----------------------------------------------------------------------------------------- */

static void free_task(etcd_task *task)
{
    simba__buffer_free(&task->body);
    simba__buffer_free(&task->answer);
    memset(task, 0, sizeof *task);
}

void egate_free(etcd_state *state)
{
    for (unsigned i = 0; i < state->tasks; i++)
        free_task(&state->task[i]);
    free(state->task);
    state->task = NULL;
    state->tasks = 0;
}

static unsigned new_task(etcd_state *state)
{
    unsigned index = 0;
    while (index < state->tasks && state->task[index].used)
        index++;
    if (index == state->tasks) {
        if (!(state->task = realloc(state->task, (index + 1) * sizeof *state->task)))
            abort();
        state->task[state->tasks++] = (etcd_task){0};
    }
    state->task[index].used = true;
    return index;
}

static void go_on(sim *s, unsigned index, int64_t after_ns)
{
    sim_plan_event(s, EV_SERVER, ETCD_EV_TASK, s->now + after_ns, 0, index);
}

static void fail(etcd_task *task, int status, int code, const char *message)
{
    task->done = true;
    task->status = status;
    task->code = code;
    task->message = message;
}

static bool is_for(const etcd_task *task, const char *path)
{
    return strcmp(task->path, path) == 0;
}

static simba__json body_of(const etcd_task *task)
{
    simba__json body;
    if (!simba__json_read(task->body.data, task->body.length, &body))
        abort();
    return body;
}

static void put_keys(sim *s, int64_t lease, simba__buffer *out)
{
    bool any = false;
    simba__json_put(out, ",'keys':[");
    for (unsigned i = 0; i < EKV_KEYS; i++) {
        const ekv *kv = &etcd_of(s)->key[i];
        char text[SIMBA__BASE64_SIZE(EKV_NAME)];
        if (!kv->created || kv->lease != lease)
            continue;
        simba__buffer_put(out, ",", any);
        simba__json_put(out, "%s", simba__base64(kv->name, strlen(kv->name), text));
        any = true;
    }
    simba__json_put(out, "]");
}

/* What most servers have to agree on. */
static void carry_out(sim *s, etcd_task *task)
{
    const simba__json body = body_of(task);
    const int64_t id = number(body, "ID");
    ekv_lease *lease = ekv_find_lease(s, id);
    simba__buffer *out = &task->answer;
    task->done = true;
    if (is_for(task, "/v3/kv/range")) {
        ekv_get(s, body, out);
    } else if (is_for(task, "/v3/kv/txn")) {
        if (!ekv_txn(s, body, out))
            fail(task, 404, 5, "etcdserver: requested lease not found");
    } else if (is_for(task, "/v3/kv/deleterange")) {
        char name[EKV_NAME];
        strcpy(name, ekv_range_of(body).from);
        ekv_delete(s, name);
    } else if (is_for(task, "/v3/lease/grant")) {
        lease = ekv_grant(s, id, number(body, "TTL"));
        if (lease)
            simba__json_put(out, "'ID':'%lld','TTL':'%lld'", (long long)id, (long long)lease->ttl_s);
        else
            fail(task, 412, 9, "etcdserver: lease already exists");
    } else if (is_for(task, "/v3/lease/revoke")) {
        if (lease)
            ekv_revoke(s, id);
        else
            fail(task, 404, 5, "etcdserver: requested lease not found");
    } else if (is_for(task, "/v3/lease/timetolive")) {
        simba__json_put(out, "'ID':'%lld','TTL':'%lld','grantedTTL':'%lld'", (long long)id, lease ? 1LL : -1LL,
                        lease ? (long long)lease->ttl_s : 0LL);
        if (lease)
            put_keys(s, id, out);
    } else {
        fprintf(stderr, "simba-sim: the model of etcd does not know %s\n", task->path);
        abort();
    }
    task->revision = etcd_of(s)->revision;
    task->upto = etcd_of(s)->events;
}

/* At a server that believes to lead, or at the leader. False: the lease has ended by its clock, and it waits until most servers know. */
static bool keep_alive(sim *s, etcd_task *task)
{
    const int64_t id = number(body_of(task), "ID");
    const etcd_server *server = &etcd_of(s)->server[task->server];
    const bool deposed = server->leads && task->server != etcd_of(s)->leader;
    const ekv_lease *lease = NULL;
    for (unsigned i = 0; deposed && i < EKV_LEASES; i++)
        if (server->lease[i].id == id)
            lease = &server->lease[i];
    if (!deposed) {
        ekv_lease *own = ekv_find_lease(s, id);
        if (own && own->expires_at <= store_clock(s))
            return false;
        if (own)
            own->expires_at = store_clock(s) + own->ttl_s * SIM_S;
        if (own)
            etcd_plan_expiry(s);
        lease = own;
    }
    sim_tell(s, "server %u %s lease %llx", task->server, lease ? "confirms" : "does not know", (unsigned long long)id);
    simba__json_put(&task->answer, "'ID':'%lld'", (long long)id);
    if (lease)
        simba__json_put(&task->answer, ",'TTL':'%lld'", (long long)lease->ttl_s);
    task->revision = etcd_of(s)->event && server->applied ? etcd_of(s)->event[server->applied - 1].kv.modified : 1;
    task->done = true;
    return true;
}

static void answer(sim *s, etcd_task *task)
{
    egate_peer *peer = wire_peer_at(s, task->wire, task->server);
    simba__buffer out = {0};
    if (!peer || peer->version != task->wire_version)
        return;
    if (task->status != 200) {
        simba__json_put(&out, "{'error':%s,'code':%lld,'message':%s}", task->message, (long long)task->code,
                        task->message);
        say_answer(s, task->wire, task->status, &out);
    } else {
        const bool streams = is_for(task, "/v3/lease/keepalive");
        put_text(&out, streams ? "{\"result\":{" : "{");
        put_header(s, task->server, task->revision, &out);
        simba__buffer_put(&out, ",", task->answer.length > 0);
        simba__buffer_put(&out, task->answer.data, task->answer.length);
        put_text(&out, streams ? "}}" : "}");
        if (streams)
            say_line(s, task->wire, peer, &out, true);
        else
            say_answer(s, task->wire, 200, &out);
    }
    peer->busy = peer->begun = false;
    simba__buffer_free(&out);
}

void egate_task(sim *s, const sim_event *event)
{
    etcd_state *state = etcd_of(s);
    const unsigned index = event->arg;
    etcd_task *task = &state->task[index];
    const etcd_server *server = &state->server[task->server];
    const bool alive = is_for(task, "/v3/lease/keepalive");
    if (server->boot != task->boot) { /* nobody is there to answer */
        free_task(task);
        return;
    }
    if (s->now < server->frozen_until) {
        go_on(s, index, server->frozen_until - s->now + sim_pick(s, 1, 100000));
        return;
    }
    const bool late = s->now >= task->deadline;
    if (s->now < server->sick_until && !task->done) {
        fail(task, 500, 2, "etcdserver: something is wrong with this server");
    } else if (!task->done && late) {
        fail(task, 503, 14, "etcdserver: request timed out");
    } else if (!task->done && alive && server->leads) {
        if (!keep_alive(s, task)) {
            go_on(s, index, 20 * SIM_MS);
            return;
        }
    } else if (!task->done) {
        const bool can = alive ? state->leader != SIM_NOBODY && etcd_reaches(s, task->server, state->leader)
                               : etcd_can_commit(s, task->server);
        if (!can && !alive && sim_chance(s, 20))
            task->dropped = true;
        if (can)
            etcd_hear_leader(s, task->server);
        if (can && !task->dropped && (!alive || keep_alive(s, task))) {
            if (!alive)
                carry_out(s, task);
            go_on(s, index, 2 * etcd_hop(s));
        } else {
            go_on(s, index, sim_pick(s, 20, 200) * SIM_MS);
        }
        return;
    } else if (!alive && !late && !etcd_can_commit(s, task->server)) { /* it does not hear that it was agreed on */
        go_on(s, index, sim_pick(s, 20, 200) * SIM_MS);
        return;
    } else if (!alive && !etcd_can_commit(s, task->server)) {
        fail(task, 503, 14, "etcdserver: request timed out");
    } else if (!alive) {
        egate_apply(s, task->server, task->upto);
    }
    answer(s, task);
    free_task(task);
}

/* --- bytes -------------------------------------------------------------------------------------------- */

/* Take a whole request. False: it has not come yet. */
static bool take_request(sim *s, unsigned wire, egate_peer *peer)
{
    const char *end = peer->length ? memmem(peer->in, peer->length, "\r\n\r\n", 4) : NULL;
    char path[32];
    if (!end)
        return false;
    const size_t head = (size_t)(end - peer->in) + 4;
    char *text = calloc(1, head + 1);
    if (!text || !memcpy(text, peer->in, head) || sscanf(text, "POST %31s HTTP/1.1\r\n", path) != 1)
        abort();
    const char *sized = strcasestr(text, "\r\nContent-Length:");
    const size_t size = sized ? strtoul(sized + strlen("\r\nContent-Length:"), NULL, 10) : 0;
    free(text);
    if (peer->length < head + size)
        return false;
    if (strcmp(path, "/v3/watch") == 0) {
        peer->streams = true;
    } else {
        etcd_state *state = etcd_of(s);
        const unsigned index = new_task(state), server = wire_server(s, wire);
        etcd_task *task = &state->task[index];
        *task = (etcd_task){.used = true,
                            .server = server,
                            .wire = wire,
                            .boot = state->server[server].boot,
                            .wire_version = peer->version,
                            .deadline = s->now + TIMEOUT_NS,
                            .status = 200};
        strcpy(task->path, path);
        simba__buffer_put(&task->body, peer->in + head, size);
        sim_tell(s, "process %u server %u %s %.*s", wire_process(s, wire), server, path, (int)size, peer->in + head);
        peer->busy = true;
        go_on(s, index, etcd_hop(s));
    }
    peer->length -= head + size;
    memmove(peer->in, peer->in + head + size, peer->length);
    return true;
}

void egate_bytes(sim *s, unsigned wire, const char *data, size_t length)
{
    egate_peer *peer = wire_peer(s, wire);
    if (!(peer->in = realloc(peer->in, peer->length + length)))
        abort();
    memcpy(peer->in + peer->length, data, length);
    peer->length += length;
    while (!peer->busy && (peer->streams ? take_chunk(s, wire, peer) : take_request(s, wire, peer)))
        ;
}
