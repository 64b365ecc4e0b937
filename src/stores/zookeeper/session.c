/* The connection to an ensemble, and the session that goes on from one connection to the next.
 *
 * The state of a connection is that of net/link.h and of liveness.h; a session is there (`id`) or not. Its end is one step that drops
 * everything of it. Each attempt at a connection goes to the next server, in an order that is shuffled once. When all were tried in
 * vain, requests fail, and names are looked up again: they may stand for other addresses by now.
 *
 * The server ends a session, and says so with the next handshake; until then nobody knows. So the client's clock counts, as
 * liveness.h says: host->session tells holders for how long they may hold. Once that time is over, and a whole round of servers has
 * broken off, the next handshake asks for a new session: the ensemble may have been set up anew, and then its servers break off
 * everybody who has seen more transactions than they have. If they serve nobody, the old session may still be good. */
#include <stdio.h>
#include <string.h>

#include "stores/zookeeper/zookeeper.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"

#define MS SIMBA__NS_PER_MS

enum { CLOSE_MS = 1000, BEAT_LATEST_MS = 5 };

static zk_session *of(simba__link *link)
{
    return (zk_session *)(void *)((char *)link - offsetof(zk_session, link));
}

/* Whatever the name was looked up to. */
static const char *where(const zk_session *session)
{
    return session->link.at.where;
}

int64_t simba__zk_now_ms(const zk_store *store)
{
    return store->host->epoch_us(store->host) / 1000 + store->session.clock_ms;
}

void simba__zk_heed_clock(zk_store *store, int64_t ms)
{
    store->session.clock_ms = ms - store->host->epoch_us(store->host) / 1000;
}

/* --- what a session is -------------------------------------------------------------------------------------- */

/* By the client's clock the session may have ended: nobody holds anything by it any more. */
static bool is_past(const zk_session *session, simba_local now)
{
    return !session->live.has_session || now.ns - session->live.proven.ns >= session->live.timeout_ns;
}

static void tell_proven(zk_session *session)
{
    simba_host *host = session->store->host;
    host->session(host, session->live.proven, session->live.timeout_ns / MS);
}

/* The session is over: so is all that it has made. */
static void end_session(zk_session *session)
{
    simba_host *host = session->store->host;
    session->id = 0;
    session->over++;
    session->anew = true;
    explicit_bzero(session->password, sizeof session->password);
    simba__zk_over(session->store);
    host->push(host, NULL, &(simba_push){.kind = SIMBA_PUSH_SESSION_LOST});
}

/* Set the timer for the next thing to do on this connection. */
static void set_timer(zk_session *session)
{
    simba_host *host = session->store->host;
    const simba_local next = simba__zk_live_next(&session->live);
    const simba_local soon = {host->now(host).ns + BEAT_LATEST_MS * MS}; /* if a beat could not be sent */
    host->timer_set(host, &session->link.timer, next.ns > soon.ns ? next : soon);
}

/* --- requests ----------------------------------------------------------------------------------------------- */

/* Give it the next number. False: out of memory, and what was put before is whole. */
static bool put_request(zk_session *session, const zk_request *request)
{
    simba__buffer *out = &session->link.out;
    const size_t before = out->length;
    session->xid = session->xid == INT32_MAX ? 1 : session->xid + 1;
    simba__zk_put_request(out, session->xid, request);
    if (!out->failed)
        return true;
    out->failed = false;
    out->length = before;
    return false;
}

bool simba__zk_session_send(zk_session *session, zk_call *call, const zk_request *request)
{
    if (!put_request(session, request))
        return false;
    call->xid = session->xid;
    simba__list_append(&session->calls, &call->item);
    return true;
}

/* A write that changes nothing. If there is no memory for it, the timer tries again. */
static void send_beat(zk_session *session, simba_local now)
{
    zk_call *call = simba__calloc(1, sizeof *call + sizeof "/");
    if (!call)
        return;
    strcpy(call->path, "/");
    call->type = call->last = ZK_SET;
    if (simba__zk_session_send(session, call,
                               &(zk_request){.type = ZK_SET, .path = "/", .data = "", .version = INT32_MIN}))
        simba__zk_live_beat(&session->live, now);
    else
        simba__free(call);
}

void simba__zk_session_flush(zk_session *session)
{
    zk_store *store = session->store;
    if (session->link.state == SIMBA__LINK_CLOSED && !session->closing && store->ops.first)
        simba__link_open(&session->link);
    if (simba__zk_is_connected(session))
        simba__link_flush(&session->link);
}

void simba__zk_session_doubt(zk_session *session, simba_local since)
{
    if (session->heard.ns <= since.ns)
        simba__link_fail(&session->link, SIMBA_EUNAVAILABLE, "zookeeper %s: the server is silent", where(session));
}

void simba__zk_session_malformed(zk_session *session)
{
    simba_host *host = session->store->host;
    if (session->link.state != SIMBA__LINK_UP)
        return;
    host->log(host, SIMBA_LOG_WARN, "zookeeper %s: the server sends what no ZooKeeper would; breaking off",
              where(session));
    simba__link_fail(&session->link, SIMBA_EUNAVAILABLE, "zookeeper %s: the server sends what no ZooKeeper would",
                     where(session));
}

/* --- the handshake ------------------------------------------------------------------------------------------ */

/* A new session: the old one, if there was any, is given up. */
static void adopt(zk_session *session)
{
    const zk_liveness last = session->live;
    if (session->id) {
        simba_host *host = session->store->host;
        host->log(host, SIMBA_LOG_WARN,
                  "zookeeper %s: each connection of the session was broken off; a new session begins. Was the ensemble "
                  "set up anew?",
                  session->store->options.where);
        end_session(session);
        session->zxid = 0;
    }
    simba__zk_live_begin(&session->live, session->store->options.session_ms);
    simba__zk_live_attempt(&session->live, last.attempt);
    simba__zk_live_greet(&session->live, last.greeted);
}

static void connected(zk_session *session, const zk_welcome *welcome)
{
    zk_store *store = session->store;
    simba_host *host = store->host;
    const simba_local now = host->now(host);
    simba__zk_live_connect(&session->live, now, welcome->timeout_ms);
    session->id = welcome->id;
    memcpy(session->password, welcome->password, sizeof session->password);
    session->tried = 0;
    session->cause[0] = '\0';
    snprintf(session->server, sizeof session->server, "%s", where(session));
    tell_proven(session);
    if (welcome->timeout_ms < store->options.session_ms)
        host->log(host, SIMBA_LOG_WARN, "zookeeper %s: the server grants a session timeout of %lld ms, not %d",
                  store->options.where, (long long)welcome->timeout_ms, store->options.session_ms);
    if (store->options.digest)
        simba__zk_put_auth(&session->link.out, store->options.digest);
    if (simba__zk_live_advise(&session->live, now) == ZK_SEND_BEAT)
        send_beat(session, now);
    set_timer(session);
    simba__zk_begin_parked(store);
    if (session->anew)
        host->push(host, NULL, &(simba_push){.kind = SIMBA_PUSH_SESSION_BACK});
    session->anew = false;
}

static void take_welcome(zk_session *session, char *message, size_t length)
{
    simba_host *host = session->store->host;
    const bool goes_on = session->id && !session->probes;
    zk_welcome welcome;
    if (!simba__zk_read_welcome(message, length, &welcome)) {
        simba__zk_session_malformed(session);
    } else if (goes_on && (welcome.timeout_ms <= 0 || welcome.id == 0)) {
        host->log(host, SIMBA_LOG_INFO, "zookeeper %s: the session has expired", session->store->options.where);
        end_session(session);
        simba__zk_live_begin(&session->live, session->store->options.session_ms);
        simba__link_fail(&session->link, SIMBA_EUNAVAILABLE, "zookeeper %s: the session has expired", where(session));
    } else if (welcome.timeout_ms < ZK_SESSION_MIN_MS || welcome.timeout_ms > ZK_SESSION_MAX_MS || welcome.id == 0 ||
               (goes_on && welcome.id != session->id)) {
        simba__zk_session_malformed(session);
    } else if (welcome.read_only) {
        simba__link_fail(&session->link, SIMBA_EUNAVAILABLE, "zookeeper %s: the server can only read", where(session));
    } else {
        if (!goes_on)
            adopt(session);
        session->probes = false;
        connected(session, &welcome);
    }
    explicit_bzero(&welcome, sizeof welcome);
}

/* --- answers ------------------------------------------------------------------------------------------------ */

static zk_answer answer_of(int error)
{
    return error == ZK_BAD_VERSION || error == ZK_NO_AUTH ? ZK_ANSWER_AGREED : ZK_ANSWER_REFUSED;
}

static void take_beat(zk_session *session, int error)
{
    simba_host *host = session->store->host;
    if (error == ZK_OK) { /* no node has that version */
        simba__zk_session_malformed(session);
        return;
    }
    if (!simba__zk_live_answer(&session->live, host->now(host), session->live.connection, answer_of(error)))
        return;
    session->broken = session->link.failures = 0;
    session->refused = false;
    tell_proven(session);
}

/* The server closes the connection after this. */
static void take_auth(zk_session *session, const zk_head *head)
{
    simba_host *host = session->store->host;
    if (head->error == ZK_OK)
        return;
    if (!session->refused)
        host->log(host, SIMBA_LOG_WARN, "zookeeper %s: authentication failed", session->store->options.where);
    session->refused = true;
    simba__link_fail(&session->link, SIMBA_EPERM, "zookeeper %s: authentication failed", where(session));
}

static void take_reply(zk_session *session, char *message, size_t length, const zk_head *head)
{
    zk_call *call = session->calls.first ? SIMBA__OF_ITEM(session->calls.first, zk_call, item) : NULL;
    zk_result result;
    if (!call || call->xid != head->xid) {
        simba__zk_session_malformed(session);
        return;
    }
    /* These are no answers: the next handshake tells. */
    if (head->error == ZK_SESSION_EXPIRED || head->error == ZK_SESSION_MOVED) {
        simba__link_fail(&session->link, SIMBA_EUNAVAILABLE,
                         "zookeeper %s: connection lost: the server refuses the session", where(session));
        return;
    }
    if (!simba__zk_read_result(message, length, call->type, call->last, &result)) {
        simba__zk_session_malformed(session);
        return;
    }
    if (head->zxid > session->zxid)
        session->zxid = head->zxid;
    simba__list_remove(&call->item);
    if (call->op) {
        simba__zk_answer(call, &result);
    } else {
        simba__free(call);
        take_beat(session, result.error);
    }
    simba__zk_result_fini(&result);
}

static void finish_close(zk_session *session)
{
    simba__link_close(&session->link);
    if (!session->resolver.at_work)
        session->store->host->closed(session->store->host);
}

static void take_message(zk_session *session, char *message, size_t length)
{
    zk_event event;
    zk_head head;
    if (session->live.link == ZK_GREETING)
        take_welcome(session, message, length);
    else if (!simba__zk_read_head(message, length, &head))
        simba__zk_session_malformed(session);
    else if (session->closing && head.xid == session->xid)
        finish_close(session);
    else if (session->closing)
        return;
    else if (head.xid == ZK_XID_AUTH)
        take_auth(session, &head);
    else if (head.xid != ZK_XID_EVENT)
        take_reply(session, message, length, &head);
    else if (simba__zk_read_event(message, length, &event))
        simba__zk_fire(session->store, &event);
    else
        simba__zk_session_malformed(session);
}

/* A length alone allocates nothing: the buffer grows with the bytes that arrive. */
static void on_bytes(simba__link *link, const char *data, size_t length)
{
    enum { KEPT = 65536 };
    zk_session *session = of(link);
    simba__buffer *in = &session->in;
    const unsigned life = link->life;
    size_t at = 0;
    session->heard = link->host->now(link->host);
    simba__buffer_put(in, data, length);
    if (in->failed) {
        in->failed = false;
        simba__link_fail(link, SIMBA_ENOMEM, "zookeeper %s: out of memory", where(session));
        return;
    }
    while (link->life == life && in->length - at >= sizeof(uint32_t)) {
        const size_t most = session->live.link == ZK_GREETING ? ZK_WELCOME_MOST : ZK_MESSAGE_MOST;
        const size_t size = simba__zk_length(in->data + at);
        if (size > most)
            simba__zk_session_malformed(session);
        if (size > most || in->length - at - sizeof(uint32_t) < size)
            break;
        at += sizeof(uint32_t) + size;
        take_message(session, in->data + at - size, size);
    }
    if (link->life != life)
        return;
    in->length -= at;
    memmove(in->data, in->data + at, in->length);
    if (in->length == 0 && in->capacity > KEPT)
        simba__buffer_free(in);
    if (simba__zk_is_connected(session))
        simba__zk_begin_parked(session->store); /* the link sends what was put */
}

/* --- connections -------------------------------------------------------------------------------------------- */

static void shuffle(zk_session *session)
{
    simba_host *host = session->store->host;
    for (size_t i = 0; i < session->resolver.count; i++) {
        const size_t other = host->random(host) % (i + 1);
        session->order[i] = session->order[other];
        session->order[other] = (uint8_t)i;
    }
}

static void attempt(zk_session *session)
{
    simba__link *link = &session->link;
    const simba_local now = link->host->now(link->host);
    const simba__target *target = &session->resolver.targets[session->order[session->next++ % session->resolver.count]];
    link->at = *target->host;
    link->tls_name = target->host->host;
    snprintf(link->at.host, sizeof link->at.host, "%s", target->address);
    /* While the session can be saved, a pause is one of 15 to 25 ms. */
    if (!is_past(session, now) && !session->refused)
        link->failures = 0;
    simba__zk_live_attempt(&session->live, now);
    link->connect_timeout_ns = simba__zk_live_next(&session->live).ns - now.ns;
    simba__link_found(link);
}

static void resolved(simba__resolver *resolver)
{
    zk_session *session = (zk_session *)(void *)((char *)resolver - offsetof(zk_session, resolver));
    if (session->closing) {
        if (session->link.state == SIMBA__LINK_CLOSED)
            session->store->host->closed(session->store->host);
        return;
    }
    session->next = 0;
    shuffle(session);
    if (!simba__link_seeks(&session->link))
        return;
    if (resolver->count > 0)
        attempt(session);
    else
        simba__link_fail(&session->link, SIMBA_EUNAVAILABLE, "zookeeper %s: cannot connect: %s", where(session),
                         resolver->cause);
}

static void on_find(simba__link *link)
{
    zk_session *session = of(link);
    if (session->resolver.count == 0 || (session->tried > 0 && session->tried % session->resolver.count == 0))
        simba__resolver_start(&session->resolver); /* `resolved` goes on */
    else
        attempt(session);
}

static void on_up(simba__link *link)
{
    static const char none[ZK_PASSWORD];
    zk_session *session = of(link);
    const simba_local now = link->host->now(link->host);
    session->in.length = 0;
    session->probes = session->id && is_past(session, now) && session->broken >= session->resolver.count;
    const bool goes_on = session->id && !session->probes;
    simba__zk_live_greet(&session->live, now);
    simba__zk_put_hello(&link->out, session->probes ? 0 : session->zxid, session->store->options.session_ms,
                        goes_on ? session->id : 0, goes_on ? session->password : none);
    set_timer(session);
}

/* Requests name all servers, so the one is left out. */
static const char *cause_of(const zk_session *session)
{
    const char *text = session->link.error.text;
    const size_t names = strlen("zookeeper ") + strlen(where(session)) + strlen(": ");
    return strlen(text) > names ? text + names : text;
}

static void on_down(simba__link *link)
{
    zk_session *session = of(link);
    const zk_link was = session->live.link;
    if (session->closing) {
        finish_close(session);
        return;
    }
    snprintf(session->cause, sizeof session->cause, "%s", cause_of(session));
    session->broken = session->probes ? 0 : session->broken + (was >= ZK_GREETING);
    session->probes = false;
    session->in.length = 0;
    simba__zk_live_lose(&session->live);
    if (was == ZK_CONNECTED)
        simba__zk_disconnected(session->store);
    if (was != ZK_CONNECTED || session->refused)
        session->tried++;
    /* A name that leads nowhere is no server, and was a round by itself. */
    const size_t round = session->resolver.count;
    if (session->refused || round == 0 || (session->tried > 0 && session->tried % round == 0))
        simba__zk_unavailable(session->store, link->error.code, session->cause);
}

/* The server removes what the session has made, and answers. If there is no memory for that, try again for a while. */
static void say_good_bye(zk_session *session)
{
    simba_host *host = session->store->host;
    simba_local next = session->close_until;
    if (!put_request(session, &(zk_request){.type = ZK_CLOSE}))
        next.ns = host->now(host).ns + BEAT_LATEST_MS * MS;
    host->timer_set(host, &session->link.timer, next);
    simba__link_flush(&session->link);
}

static void on_tick(simba__link *link, simba_local now)
{
    zk_session *session = of(link);
    if (session->closing) {
        if (now.ns >= session->close_until.ns)
            finish_close(session);
        else
            say_good_bye(session);
        return;
    }
    switch (simba__zk_live_advise(&session->live, now)) {
    case ZK_WAIT:
        break;
    case ZK_SEND_BEAT:
        send_beat(session, now);
        simba__link_flush(link);
        break;
    case ZK_GIVE_UP:
        if (session->live.link == ZK_CONNECTED)
            link->host->log(link->host, SIMBA_LOG_INFO, "zookeeper %s: the server is silent, trying another",
                            session->store->options.where);
        simba__link_fail(link, SIMBA_EUNAVAILABLE, "zookeeper %s: no answer", where(session));
        return;
    }
    if (link->state == SIMBA__LINK_UP)
        set_timer(session);
}

static void looked_up(simba__links *all)
{
    (void)all;
}

/* --- lifetime ----------------------------------------------------------------------------------------------- */

int simba__zk_session_init(zk_session *session, zk_store *store, simba__tls_context *tls)
{
    static const simba__link_events events = {
        .find = on_find, .up = on_up, .bytes = on_bytes, .down = on_down, .tick = on_tick};
    session->store = store;
    session->links = (simba__links){.host = store->host, .kind = "zookeeper", .tls = tls, .looked_up = looked_up};
    session->resolver = (simba__resolver){.host = store->host,
                                          .hosts = store->options.hosts,
                                          .host_count = store->options.host_count,
                                          .resolved = resolved};
    simba__zk_live_begin(&session->live, store->options.session_ms);
    return simba__link_init(&session->link, &session->links, &events, 0);
}

void simba__zk_session_close(zk_session *session)
{
    simba_host *host = session->store->host;
    const bool says_so = simba__zk_is_connected(session);
    session->closing = true;
    simba__resolver_give_up(&session->resolver);
    if (!says_so) {
        finish_close(session);
        return;
    }
    session->close_until.ns = host->now(host).ns + CLOSE_MS * MS;
    say_good_bye(session);
}

void simba__zk_session_fini(zk_session *session)
{
    simba__link_fini(&session->link);
    simba__tls_context_free(session->links.tls);
    simba__buffer_free(&session->in);
    explicit_bzero(session->password, sizeof session->password);
}
