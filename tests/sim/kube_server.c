/* Two API servers behind one address: a connection comes to either. They read and write what is in etcd, where a write that names a
 * version succeeds if that is the latest. What watches tell comes from a watch cache, which each has for itself, and which lags. A
 * request is carried out a while after it has come, also if its client has gone. */
#include <stdlib.h>
#include <string.h>

#include "sim/kube_model.h"

#define BOOKMARK_NS (60 * SIM_S)

/* A connection, as its API server sees it. */
typedef struct kube_peer {
    uint32_t id;
    unsigned api;
    bool busy; /* with a request or a watch */
    bool watches;
    fake_kube_watch watch;
    int64_t ends_at; /* the watch */
    size_t in_size;
    char in[KUBE_IN + 1];
} kube_peer;

bool kube_is_up(const sim *s, unsigned api)
{
    return s->now >= kube_state_of(s)->api[api].down_until;
}

static int64_t hop(sim *s)
{
    return sim_pick(s, SIM_MS / 10, 3 * SIM_MS);
}

static void say(sim *s, unsigned wire, char *text)
{
    wire_answer(s, wire, text, strlen(text));
    free(text);
}

/* --- connections ------------------------------------------------------------------------------------------ */

void kube_opened(sim *s, unsigned wire)
{
    kube_peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        abort();
    peer->id = ++kube_state_of(s)->peers;
    peer->api = sim_chance(s, 500);
    if (!kube_is_up(s, peer->api))
        peer->api = 1 - peer->api;
    wire_set_peer(s, wire, peer);
}

void kube_closed(sim *s, unsigned wire)
{
    free(wire_peer(s, wire));
    wire_set_peer(s, wire, NULL);
}

void kube_drop(sim *s, unsigned api)
{
    for (unsigned wire = wire_next(s, 0); wire; wire = wire_next(s, wire))
        if (((const kube_peer *)wire_peer(s, wire))->api == api)
            wire_drop(s, wire);
    for (unsigned i = 0; i < KUBE_PENDING; i++)
        if (kube_state_of(s)->pending[i].api == api)
            kube_state_of(s)->pending[i].used = false;
}

/* --- requests --------------------------------------------------------------------------------------------- */

/* Take the next whole request out of what has come. */
static void take_request(sim *s, unsigned wire)
{
    kube_peer *peer = wire_peer(s, wire);
    kube_state *state = kube_state_of(s);
    fake_kube_request request;
    peer->in[peer->in_size] = '\0';
    char *end = strstr(peer->in, "\r\n\r\n");
    if (peer->busy || !end)
        return;
    const size_t head = (size_t)(end - peer->in) + 4;
    end[2] = '\0';
    const bool is_one = fake_kube_parse(peer->in, &request);
    end[2] = '\r';
    if (!is_one || request.size >= KUBE_IN) {
        fprintf(stderr, "simba-sim: this is no request: %.200s\n", peer->in);
        abort();
    }
    if (peer->in_size < head + request.size)
        return;
    unsigned i = 0;
    while (i < KUBE_PENDING && state->pending[i].used)
        i++;
    if (i == KUBE_PENDING)
        abort();
    kube_pending *pending = &state->pending[i];
    pending->used = peer->busy = true;
    pending->id = ++state->requests;
    pending->api = peer->api;
    pending->wire = wire;
    pending->peer = peer->id;
    pending->request = request;
    strcpy(pending->request.token, FAKE_KUBERNETES_TOKEN);
    memcpy(pending->body, peer->in + head, request.size);
    pending->body[request.size] = '\0';
    pending->request.body = pending->body;
    peer->in_size -= head + request.size;
    memmove(peer->in, peer->in + head + request.size, peer->in_size);
    sim_plan_event(s, EV_SERVER, KUBE_EV_APPLY, s->now + hop(s), pending->id, i);
}

/* A client does not ask for more before it has an answer, beyond one request. */
void kube_bytes(sim *s, unsigned wire, const char *data, size_t length)
{
    kube_peer *peer = wire_peer(s, wire);
    if (length > KUBE_IN - peer->in_size)
        abort();
    memcpy(peer->in + peer->in_size, data, length);
    peer->in_size += length;
    take_request(s, wire);
}

/* --- watches ---------------------------------------------------------------------------------------------- */

static void end_watch(sim *s, unsigned wire, kube_peer *peer)
{
    peer->watches = peer->busy = false;
    say(s, wire, fake_kube_chunk(NULL));
    take_request(s, wire);
}

/* Everything that the cache of its server has. */
static void tell(sim *s, unsigned wire, kube_peer *peer)
{
    kube_state *state = kube_state_of(s);
    state->objects.shown = state->api[peer->api].shown;
    state->objects.oldest = state->api[peer->api].oldest;
    char *text = fake_kube_events(&state->objects, &peer->watch);
    if (!text)
        return;
    sim_tell(s, "process %u, api %u tells: %.300s", wire_process(s, wire), peer->api, text);
    say(s, wire, fake_kube_chunk(text));
    free(text);
    if (peer->watch.timeout_ms == 0)
        end_watch(s, wire, peer);
}

static void plan_watch(sim *s, unsigned wire, const kube_peer *peer)
{
    const int64_t next = s->now + BOOKMARK_NS < peer->ends_at ? s->now + BOOKMARK_NS : peer->ends_at;
    sim_plan_event(s, EV_SERVER, KUBE_EV_WATCH, next, peer->id, wire);
}

static void begin_watch(sim *s, unsigned wire, kube_peer *peer, const fake_kube_watch *watch)
{
    peer->watch = *watch;
    peer->watches = true;
    peer->ends_at = s->now + watch->timeout_ms * SIM_MS;
    wire_answer(s, wire, fake_kube_watch_head, strlen(fake_kube_watch_head));
    plan_watch(s, wire, peer);
    tell(s, wire, peer);
}

static void watch_goes_on(sim *s, const sim_event *event)
{
    kube_peer *peer = wire_peer_at(s, event->arg, 0);
    if (!peer || peer->id != event->version || !peer->watches)
        return;
    if (s->now >= peer->ends_at) {
        end_watch(s, event->arg, peer);
        return;
    }
    char *text = fake_kube_bookmark(&peer->watch);
    if (peer->watch.bookmarks)
        say(s, event->arg, fake_kube_chunk(text));
    free(text);
    plan_watch(s, event->arg, peer);
}

void kube_spread(sim *s)
{
    kube_state *state = kube_state_of(s);
    for (unsigned i = 0; i < KUBE_APIS; i++) {
        const int64_t lags = state->api[i].lags_until > s->now ? state->api[i].lags_until : s->now;
        sim_plan_event(s, EV_SERVER, KUBE_EV_CACHE + i, lags + hop(s), 0, (uint32_t)state->objects.version);
    }
}

static void cache_learns(sim *s, const sim_event *event)
{
    const unsigned index = event->who - KUBE_EV_CACHE;
    kube_api *api = &kube_state_of(s)->api[index];
    if (s->now < api->frozen_until) {
        sim_plan_event(s, EV_SERVER, event->who, api->frozen_until + hop(s), 0, event->arg);
        return;
    }
    if (event->arg > api->shown)
        api->shown = event->arg;
    for (unsigned wire = wire_next(s, 0); wire; wire = wire_next(s, wire)) {
        kube_peer *peer = wire_peer(s, wire);
        if (peer->watches && peer->api == index)
            tell(s, wire, peer);
    }
}

/* --- events ----------------------------------------------------------------------------------------------- */

/* A server that is told too much refuses. While etcd elects a leader, a request fails, before or after it was carried out. */
static fake_kube_answer answer_of(sim *s, kube_pending *pending, fake_kube_watch *watch)
{
    kube_state *state = kube_state_of(s);
    const bool away = s->now < state->etcd_away_until;
    if (s->now < state->api[pending->api].overloaded_until && sim_chance(s, 700))
        return fake_kube_failure(429, "TooManyRequests", "please try again later");
    if (away && sim_chance(s, 500))
        return fake_kube_failure(500, NULL, "etcdserver: leader changed");
    const fake_kube_answer answer = kube_carry_out(s, pending->api, &pending->request, watch);
    if (!away || answer.code == 0)
        return answer;
    json_decref(answer.body);
    return fake_kube_failure(504, "Timeout", "etcdserver: request timed out");
}

static void apply(sim *s, const sim_event *event)
{
    kube_state *state = kube_state_of(s);
    kube_pending *pending = &state->pending[event->arg];
    fake_kube_watch watch = {.timeout_ms = 0};
    if (!pending->used || pending->id != event->version)
        return;
    if (s->now < state->api[pending->api].frozen_until) {
        sim_plan_event(s, EV_SERVER, KUBE_EV_APPLY, state->api[pending->api].frozen_until + hop(s), pending->id,
                       event->arg);
        return;
    }
    const fake_kube_answer answer = answer_of(s, pending, &watch);
    pending->used = false;
    kube_peer *peer = wire_peer_at(s, pending->wire, 0);
    if (!peer || peer->id != pending->peer) {
        json_decref(answer.body);
        return;
    }
    if (answer.code == 0) {
        begin_watch(s, pending->wire, peer, &watch);
        return;
    }
    say(s, pending->wire, fake_kube_answer_text(answer));
    peer->busy = false;
    take_request(s, pending->wire);
}

void kube_event(sim *s, const sim_event *event)
{
    if (event->who >= KUBE_EV_GO)
        kube_gos_event(s, event);
    else if (event->who >= KUBE_EV_WATCH)
        watch_goes_on(s, event);
    else if (event->who >= KUBE_EV_CACHE)
        cache_learns(s, event);
    else
        apply(s, event);
}
