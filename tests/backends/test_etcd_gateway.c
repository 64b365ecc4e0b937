/* What etcd answers when something is wrong with it, with the log-in, or with the way to it: refusals, nonsense, lost answers. A gateway of
 * the test's own stands before a real etcd, and answers some of the requests itself. */
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/cm.h"
#include "lib/fake.h"
#include "lib/server.h"

#include "backends/asking.h"
#include "stores/etcd/etcd.h"
#include "util/clock.h"

enum { LONG_MS = 20000, REQUEST_MOST = 65536, CONNECTIONS = 64, RULES = 4 };

static server etcd;

/* --- the gateway -------------------------------------------------------------------------------------------- */

/* What happens to a request. The first rule that fits and is not used up counts; without one etcd answers. */
typedef struct rule {
    const char *path, *with; /* texts in the target, and in the request, head and body; NULL: any */
    unsigned times;
    bool carried_out;    /* etcd carries it out, too */
    const char *answer;  /* what the client gets; NULL: the connection ends */
    unsigned after;      /* not before so many log-ins were answered */
    void (*first)(void); /* called before anything else */
    unsigned hits;
} rule;

typedef struct gateway {
    int port, listener;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    rule rules[RULES];
    unsigned requests, log_ins;
    int sockets[CONNECTIONS]; /* 0: none */
    unsigned workers;
} gateway;

typedef struct worker {
    gateway *gate;
    int client;
} worker;

static int dial(int port)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void say(int fd, const char *bytes, size_t length)
{
    (void)!send(fd, bytes, length, MSG_NOSIGNAL);
}

/* One message of HTTP: its head, and a body of a known length or of chunks. 0: the connection has ended. */
static size_t read_message(int fd, char *out)
{
    size_t length = 0;
    for (;;) {
        out[length] = '\0';
        const char *head = strstr(out, "\r\n\r\n");
        const char *sized = head ? strcasestr(out, "Content-Length:") : NULL;
        const bool is_chunked = head && strcasestr(out, "Transfer-Encoding: chunked");
        const char *last = is_chunked ? strstr(head + 2, "\r\n0\r\n") : NULL; /* fields may follow */
        if (is_chunked && (strncmp(out, "POST /v3/watch", 14) == 0 || (last && strstr(last + 3, "\r\n\r\n"))))
            return length;
        if (head && !is_chunked && length >= (size_t)(head + 4 - out) + (sized ? strtoul(sized + 15, NULL, 10) : 0))
            return length;
        const ssize_t got = recv(fd, out + length, REQUEST_MOST - 1 - length, 0);
        if (got <= 0)
            return 0;
        length += (size_t)got;
    }
}

/* The rule for this request, or one without a path. */
static rule rule_for(gateway *gate, const char *request)
{
    char target[64] = "";
    rule found = {0};
    sscanf(request, "POST %63s", target);
    pthread_mutex_lock(&gate->lock);
    gate->requests++;
    for (size_t i = 0; i < RULES && !found.path; i++) {
        rule *r = &gate->rules[i];
        if (!r->path || r->hits >= r->times || !strstr(target, r->path) || (r->with && !strstr(request, r->with)))
            continue;
        r->hits++;
        found = *r;
    }
    while (gate->log_ins < found.after)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
    return found;
}

static void count_log_in(gateway *gate, const char *request)
{
    if (strncmp(request, "POST /v3/auth/authenticate", 26) != 0)
        return;
    pthread_mutex_lock(&gate->lock);
    gate->log_ins++;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

/* The rest of the request and of the answer, as it comes. */
static void *pass_on(void *arg)
{
    const int *ends = arg;
    char bytes[4096];
    ssize_t got;
    while ((got = recv(ends[0], bytes, sizeof bytes, 0)) > 0)
        say(ends[1], bytes, (size_t)got);
    shutdown(ends[0], SHUT_RDWR);
    shutdown(ends[1], SHUT_RDWR);
    return NULL;
}

/* A stream of watches on which nothing happens: for each message, how far the server is. */
static void tell_progress(int client)
{
    static const char line[] =
        "47\r\n{\"result\":{\"header\":{\"revision\":\"9\",\"raft_term\":\"2\"},\"watch_id\":\"-1\"}}\n\r\n";
    char bytes[4096];
    while (recv(client, bytes, sizeof bytes, 0) > 0)
        say(client, line, sizeof line - 1);
}

static void serve(gateway *gate, int client)
{
    char *request = calloc(1, REQUEST_MOST);
    char *answer = calloc(1, REQUEST_MOST);
    const int upstream = dial(etcd.port);
    size_t length;
    while ((length = read_message(client, request)) > 0) {
        const rule r = rule_for(gate, request);
        const bool streams = strncmp(request, "POST /v3/watch", 14) == 0;
        char *token = strstr(request, "\r\nAuthorization: ");
        if (token) /* which etcd has not made: it shall not see the field */
            token[2] = 'X';
        if (r.first)
            r.first();
        if (streams && !r.path) {
            const int to[2] = {client, upstream};
            const int from[2] = {upstream, client};
            pthread_t thread;
            say(upstream, request, length);
            pthread_create(&thread, NULL, pass_on, (void *)from);
            pass_on((void *)to);
            pthread_join(thread, NULL);
            break;
        }
        if (!r.path || r.carried_out) {
            say(upstream, request, length);
            length = read_message(upstream, answer);
        }
        if (r.path && !r.answer)
            break;
        count_log_in(gate, request);
        if (r.path)
            say(client, r.answer, strlen(r.answer));
        else
            say(client, answer, length);
        if (streams)
            tell_progress(client);
    }
    close(upstream);
    free(request);
    free(answer);
}

static void *work(void *arg)
{
    worker w = *(worker *)arg;
    free(arg);
    serve(w.gate, w.client);
    pthread_mutex_lock(&w.gate->lock);
    for (size_t i = 0; i < CONNECTIONS; i++)
        if (w.gate->sockets[i] == w.client)
            w.gate->sockets[i] = 0;
    close(w.client);
    w.gate->workers--;
    pthread_cond_broadcast(&w.gate->changed);
    pthread_mutex_unlock(&w.gate->lock);
    return NULL;
}

static void *accept_all(void *arg)
{
    gateway *gate = arg;
    int client;
    while ((client = accept(gate->listener, NULL, NULL)) >= 0) {
        worker *w = calloc(1, sizeof *w);
        pthread_t thread;
        size_t i = 0;
        *w = (worker){gate, client};
        pthread_mutex_lock(&gate->lock);
        while (gate->sockets[i])
            i++;
        gate->sockets[i] = client;
        gate->workers++;
        pthread_mutex_unlock(&gate->lock);
        pthread_create(&thread, NULL, work, w);
        pthread_detach(thread);
    }
    return NULL;
}

static void gateway_start(gateway *gate)
{
    *gate = (gateway){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    gate->listener = fake_listen(&gate->port);
    pthread_create(&gate->thread, NULL, accept_all, gate);
}

static void gateway_stop(gateway *gate)
{
    fake_stop_listening(gate->listener, gate->thread);
    pthread_mutex_lock(&gate->lock);
    for (size_t i = 0; i < CONNECTIONS; i++)
        if (gate->sockets[i])
            shutdown(gate->sockets[i], SHUT_RDWR);
    while (gate->workers > 0)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static void set_rule(gateway *gate, unsigned nth, rule r)
{
    pthread_mutex_lock(&gate->lock);
    gate->rules[nth] = r;
    pthread_mutex_unlock(&gate->lock);
}

static unsigned read_count(gateway *gate, const unsigned *count)
{
    pthread_mutex_lock(&gate->lock);
    const unsigned value = *count;
    pthread_mutex_unlock(&gate->lock);
    return value;
}

#define HITS(gate, nth) read_count(gate, &(gate)->rules[nth].hits)
#define JSON(status, length, body)                                                                                     \
    "HTTP/1.1 " status "\r\nContent-Type: application/json\r\nContent-Length: " length "\r\n\r\n" body
#define UNAVAILABLE JSON("503 Oops", "45", "{\"code\":14,\"message\":\"etcdserver: no leader\"}")
#define BAD_TOKEN JSON("401 No", "54", "{\"code\":16,\"message\":\"etcdserver: invalid auth token\"}")
#define TOKEN(name) JSON("200 OK", "14", "{\"token\":\"" name "\"}")

/* --- clients ------------------------------------------------------------------------------------------------ */

static gateway gate;
static testhost a;       /* by the gateway */
static testhost b;       /* straight */
static unsigned test_no; /* each test has a prefix of its own */

#define AWAIT(h, condition)                                                                                            \
    do {                                                                                                               \
        const int64_t until_ = simba__clock_mono_ns() + LONG_MS * SIMBA__NS_PER_MS;                                    \
        while (!(condition)) {                                                                                         \
            if (simba__clock_mono_ns() > until_)                                                                       \
                fail_msg("never: %s", #condition);                                                                     \
            testhost_pump(h, NULL, 1);                                                                                 \
        }                                                                                                              \
    } while (0)

static void open_by(testhost *h, const char *format, int port, int second)
{
    char url[160];
    simba_error err = {0};
    const size_t length = (size_t)snprintf(url, sizeof url, format, port, second);
    snprintf(url + length, sizeof url - length, "&prefix=%u/", test_no);
    if (testhost_open(h, &simba__backend_etcd, url, &err) < 0)
        fail_msg("%s", err.text);
}

static etcd_store *store_of(testhost *h)
{
    return h->store;
}

static int setup(void **state)
{
    (void)state;
    test_no++;
    gateway_start(&gate);
    open_by(&a, "etcd://127.0.0.1:%d?session-timeout=5s", gate.port, 0);
    open_by(&b, "etcd://127.0.0.1:%d?session-timeout=5s", etcd.port, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    testhost_close(&a);
    testhost_close(&b);
    gateway_stop(&gate);
    return 0;
}

static simba_reply contend(testhost *h, uint64_t nonce)
{
    testhost_request r = testhost_request_of(h, SIMBA_OP_ACQUIRE, "m", "me", nonce, 0);
    r.request.queue = true;
    testhost_ask(h, &r);
    return r.request.reply;
}

static bool is_told(const testhost *h, uint64_t nonce, simba_push_kind kind)
{
    for (size_t i = 0; i < h->push_count; i++)
        if (h->pushes[i].nonce == nonce && h->pushes[i].push.kind == kind)
            return true;
    return false;
}

/* A waits for what B holds. */
static uint64_t wait_for_b(void)
{
    const uint64_t token = acquire(&b, "m", "other", 1).owner.token;
    assert_owned_by(contend(&a, 2), "other");
    return token;
}

/* --- watches ------------------------------------------------------------------------------------------------ */

#define REFUSED_WATCH(reason)                                                                                          \
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n96\r\n{\"result\":{\"header\":{\"revision\":\"9\","          \
    "\"raft_term\":\"2\"},\"watch_id\":\"-1\",\"created\":true,\"canceled\":true,\"cancel_reason\":\"" reason          \
    "\"}}\n\r\n"

/* Newer servers refuse a watch without saying which one it was. The waiter hears of the release all the same. */
static void refused_watch(void **state)
{
    (void)state;
    set_rule(&gate, 0,
             (rule){.path = "/v3/watch", .times = 1, .answer = REFUSED_WATCH("etcdserver: permission denied")});
    const uint64_t token = wait_for_b();
    AWAIT(&a, HITS(&gate, 0) == 1);
    assert_mine(ask(&b, SIMBA_OP_RELEASE, "m", "other", 1, token));
    AWAIT(&a, is_told(&a, 2, SIMBA_PUSH_RELEASED));
}

/* Its own watch tells a leader that somebody removes its key, and the server does not answer just then. */
static void failed_look(void **state)
{
    (void)state;
    assert_mine(contend(&a, 2));
    AWAIT(&a, store_of(&a)->stream.watches.count == 1);
    set_rule(&gate, 0,
             (rule){.path = "/v3/kv/txn", .with = "{\"success\":[{\"request_range", .times = 3, .answer = UNAVAILABLE});
    assert_mine(ask(&b, SIMBA_OP_FORCE_RELEASE, "m", "", 0, 0));
    AWAIT(&a, is_told(&a, 2, SIMBA_PUSH_CHANGED));
    assert_int_equal(HITS(&gate, 0), 3);
}

/* --- servers ------------------------------------------------------------------------------------------------ */

static int64_t proven(testhost *h)
{
    return store_of(h)->session.live.proven.ns;
}

/* One of two servers answers every request with an error, from some moment on. Requests, the session and the watches go to the other. */
static void sick_member(void **state)
{
    (void)state;
    static gateway pair[2];
    static testhost c;
    const uint64_t token = acquire(&b, "m", "other", 1).owner.token;
    gateway_start(&pair[0]);
    gateway_start(&pair[1]);
    open_by(&c, "etcd://127.0.0.1:%d,127.0.0.1:%d?session-timeout=5s", pair[0].port, pair[1].port);
    for (unsigned round = 0; round < 3; round++) {
        testhost_request reads[8];
        assert_owned_by(contend(&c, 2), "other");
        for (size_t i = 0; i < 8; i++) { /* on all connections */
            reads[i] = testhost_request_of(&c, SIMBA_OP_READ, "m", "", 0, 0);
            testhost_submit(&c, &reads[i]);
        }
        for (size_t i = 0; i < 8; i++)
            AWAIT(&c, reads[i].done);
        gateway *sick = &pair[store_of(&c)->session.http.link.at.port == pair[1].port];
        set_rule(sick == &pair[0] ? &pair[1] : &pair[0], 0, (rule){0});
        set_rule(sick, 0, (rule){.path = "/v3/", .times = UINT32_MAX, .answer = UNAVAILABLE});
        for (size_t i = 0; i < 12; i++) {
            const simba_reply reply = ask(&c, SIMBA_OP_READ, "m", "", 0, 0);
            assert_string_equal(reply.owner.id, "other");
        }
        const int64_t before = proven(&c);
        AWAIT(&c, proven(&c) > before);
        AWAIT(&c, store_of(&c)->stream.open && store_of(&c)->stream.http.link.at.port != sick->port);
        assert_int_not_equal(store_of(&c)->session.http.link.at.port, sick->port);
    }
    assert_mine(ask(&b, SIMBA_OP_RELEASE, "m", "other", 1, token));
    AWAIT(&c, is_told(&c, 2, SIMBA_PUSH_RELEASED));
    testhost_close(&c);
    gateway_stop(&pair[0]);
    gateway_stop(&pair[1]);
}

/* --- answers that say nothing ------------------------------------------------------------------------------- */

/* etcd puts the key, and the client cannot read that in the answer: the key must not stay when the contender gives up. */
static void unclear_put(void **state)
{
    (void)state;
    static const char *const answers[] = {JSON("200 OK", "8", "nonsense"), JSON("400 Oops", "2", "{}"),
                                          JSON("200 OK", "2", "{}")};
    for (size_t i = 0; i < 3; i++) {
        testhost_request r = testhost_request_of(&a, SIMBA_OP_ACQUIRE, "m", "me", 10 + i, 0);
        r.request.queue = true;
        set_rule(
            &gate, 0,
            (rule){.path = "/v3/kv/txn", .with = "request_put", .times = 3, .carried_out = true, .answer = answers[i]});
        store_of(&a)->session.doubts.ns = 0;
        testhost_ask(&a, &r);
        assert_int_equal(r.request.reply.status, SIMBA_ESTORE);
        assert_true(store_of(&a)->session.doubts.ns > 0);
        set_rule(&gate, 0, (rule){0});
        ask(&a, SIMBA_OP_RELEASE, "m", "me", 10 + i, 0);
        assert_mine(acquire(&b, "m", "other", 1));
        assert_mine(ask(&b, SIMBA_OP_RELEASE, "m", "other", 1, 0));
    }
}

/* etcd carries the release out, and the answer is lost: that it finds no key afterwards does not mean that somebody took it away. */
static void lost_release(void **state)
{
    (void)state;
    for (unsigned times = 1; times <= 3; times += 2) { /* with 3 the request fails, and the contender asks again */
        const uint64_t token = contend(&a, 2).owner.token;
        testhost_request r = testhost_request_of(&a, SIMBA_OP_RELEASE, "m", "me", 2, token);
        set_rule(&gate, 0, (rule){.path = "/v3/kv/txn", .with = "delete_range", .times = times, .carried_out = true});
        testhost_ask(&a, &r);
        if (times == 3) {
            assert_int_equal(r.request.reply.status, SIMBA_EUNAVAILABLE);
            r.done = false;
            testhost_ask(&a, &r);
        }
        assert_int_equal(r.request.reply.status, 0);
        assert_mine(r.request.reply);
    }
}

/* --- keys that nobody knows --------------------------------------------------------------------------------- */

static char orphan[96];

/* What etcd answers to a request of the test's own. */
static const char *tell_etcd(const char *path, const char *body)
{
    static char text[REQUEST_MOST];
    const int fd = dial(etcd.port);
    const int length =
        snprintf(text, sizeof text, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s", path,
                 strlen(body), body);
    say(fd, text, (size_t)length);
    assert_true(read_message(fd, text) > 0);
    close(fd);
    return text;
}

static void put_orphan(void)
{
    simba__buffer out = {0};
    char key[SIMBA__BASE64_SIZE(sizeof orphan)];
    simba__json_put(&out, "{'key':%s,'lease':'%lld'}", simba__base64(orphan, strlen(orphan), key),
                    (long long)store_of(&a)->session.lease);
    simba__buffer_put(&out, "", 1);
    assert_non_null(strstr(tell_etcd("/v3/kv/put", out.data), "200 OK"));
    simba__buffer_free(&out);
}

static bool is_orphan_there(void)
{
    simba__buffer out = {0};
    char key[SIMBA__BASE64_SIZE(sizeof orphan)];
    simba__json_put(&out, "{'key':%s}", simba__base64(orphan, strlen(orphan), key));
    simba__buffer_put(&out, "", 1);
    const bool is_there = strstr(tell_etcd("/v3/kv/range", out.data), "create_revision");
    simba__buffer_free(&out);
    return is_there;
}

static void put_orphan_anew(void)
{
    simba__buffer out = {0};
    char key[SIMBA__BASE64_SIZE(sizeof orphan)];
    simba__json_put(&out, "{'key':%s}", simba__base64(orphan, strlen(orphan), key));
    simba__buffer_put(&out, "", 1);
    tell_etcd("/v3/kv/deleterange", out.data);
    simba__buffer_free(&out);
    put_orphan();
}

/* A key that nobody knows goes. One that was put since the client has seen it stays: a contender may lead by it, and the deletion may come
 * as late as that put. */
static void late_sweep(void **state)
{
    (void)state;
    assert_mine(contend(&a, 2));
    const long long lease = (long long)store_of(&a)->session.lease;
    snprintf(orphan, sizeof orphan, "orphan/%llx-0000000000000007", lease);
    put_orphan();
    set_rule(&gate, 0,
             (rule){.path = "/v3/kv/txn",
                    .with = "LESS",
                    .times = 1,
                    .carried_out = true,
                    .first = put_orphan_anew,
                    .answer = UNAVAILABLE});
    set_rule(&gate, 1, (rule){.path = "/v3/kv/txn", .with = "LESS", .times = 2, .answer = UNAVAILABLE});
    simba__etcd_session_doubt(store_of(&a));
    AWAIT(&a, HITS(&gate, 1) == 2 && !store_of(&a)->session.sweep);
    assert_true(is_orphan_there());
    set_rule(&gate, 1, (rule){0});
    AWAIT(&a, !is_orphan_there());
}

/* --- who may ------------------------------------------------------------------------------------------------ */

static void open_with_user(void)
{
    testhost_close(&a);
    set_rule(&gate, 0, (rule){.path = "authenticate", .times = 1, .answer = TOKEN("t1")});
    open_by(&a, "etcd://me:secret@127.0.0.1:%d?session-timeout=5s", gate.port, 0);
}

/* etcd does not take the token any more, and the password neither: a client that waits does not ask all the time. */
static void refused_password(void **state)
{
    (void)state;
    open_with_user();
    wait_for_b();
    set_rule(&gate, 0,
             (rule){.path = "authenticate",
                    .times = UINT32_MAX,
                    .answer = JSON("400 No", "85",
                                   "{\"code\":3,\"message\":\"etcdserver: authentication failed, "
                                   "invalid user ID or password\"}")});
    set_rule(&gate, 1, (rule){.path = "/v3/", .times = UINT32_MAX, .answer = BAD_TOKEN});
    AWAIT(&a, HITS(&gate, 0) >= 1);
    testhost_pump(&a, NULL, 1500);
    assert_true(HITS(&gate, 0) <= 3);
    testhost_request r = testhost_request_of(&a, SIMBA_OP_READ, "m", "", 0, 0);
    testhost_ask(&a, &r);
    assert_int_equal(r.request.reply.status, SIMBA_EPERM);
}

/* Several calls are under way when etcd forgets the token. One log-in is enough for all of them. */
static void one_log_in(void **state)
{
    (void)state;
    testhost_request reads[4];
    open_with_user();
    assert_mine(contend(&a, 2));
    assert_int_equal(read_count(&gate, &gate.log_ins), 1);
    /* One is refused; the others are when there is a new token already. */
    set_rule(&gate, 0, (rule){.path = "authenticate", .times = UINT32_MAX, .answer = TOKEN("t2")});
    set_rule(&gate, 1, (rule){.path = "range", .with = "Authorization: t1", .times = 1, .answer = BAD_TOKEN});
    set_rule(
        &gate, 2,
        (rule){.path = "range", .with = "Authorization: t1", .times = UINT32_MAX, .after = 2, .answer = BAD_TOKEN});
    for (size_t i = 0; i < 4; i++) {
        reads[i] = testhost_request_of(&a, SIMBA_OP_READ, "m", "", 0, 0);
        testhost_submit(&a, &reads[i]);
    }
    for (size_t i = 0; i < 4; i++)
        AWAIT(&a, reads[i].done);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(reads[i].request.reply.status, 0);
    assert_true(HITS(&gate, 2) >= 3);
    assert_int_equal(read_count(&gate, &gate.log_ins), 2);
}

/* Authentication was off when the client came, and is turned on later. */
static void enabled_later(void **state)
{
    (void)state;
    testhost_close(&a);
    open_by(&a, "etcd://me:secret@127.0.0.1:%d?session-timeout=5s", gate.port, 0);
    assert_mine(contend(&a, 2));
    assert_true(store_of(&a)->calls.no_auth);
    set_rule(&gate, 0, (rule){.path = "authenticate", .times = 1, .answer = TOKEN("t1")});
    set_rule(&gate, 1,
             (rule){.path = "range",
                    .with = "CREATE",
                    .times = 1,
                    .answer = JSON("400 No", "53", "{\"code\":3,\"message\":\"etcdserver: user name is empty\"}")});
    assert_string_equal(ask(&a, SIMBA_OP_READ, "m", "", 0, 0).owner.id, "me");
    assert_int_equal(HITS(&gate, 0), 1);
}

/* --- LIST --------------------------------------------------------------------------------------------------- */

/* The prefix goes beyond the last slash of a key that begins with it: no name is left for a mutex. */
static void prefix_of_a_key(void **state)
{
    (void)state;
    testhost c;
    assert_mine(contend(&a, 2));
    char url[96];
    char lease[24];
    simba_error err = {0};
    snprintf(lease, sizeof lease, "%llx", (unsigned long long)store_of(&a)->session.lease);
    snprintf(url, sizeof url, "etcd://127.0.0.1:%d?prefix=%u/m/%.3s", etcd.port, test_no, lease);
    assert_int_equal(testhost_open(&c, &simba__backend_etcd, url, &err), 0);
    testhost_request r = testhost_request_of(&c, SIMBA_OP_LIST, NULL, "", 0, 0);
    testhost_ask(&c, &r);
    assert_int_equal(r.request.reply.status, 0);
    assert_int_equal(c.listed_count, 0);
    testhost_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(refused_watch, setup, teardown),
        cmocka_unit_test_setup_teardown(failed_look, setup, teardown),
        cmocka_unit_test_setup_teardown(sick_member, setup, teardown),
        cmocka_unit_test_setup_teardown(unclear_put, setup, teardown),
        cmocka_unit_test_setup_teardown(lost_release, setup, teardown),
        cmocka_unit_test_setup_teardown(late_sweep, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_password, setup, teardown),
        cmocka_unit_test_setup_teardown(one_log_in, setup, teardown),
        cmocka_unit_test_setup_teardown(enabled_later, setup, teardown),
        cmocka_unit_test_setup_teardown(prefix_of_a_key, setup, teardown),
    };
    if (!server_has("etcd")) {
        puts("1..0 # SKIP etcd is not installed");
        return 0;
    }
    server_init(&etcd);
    const int failed = server_start_etcd(&etcd) ? cmocka_run_group_tests(tests, NULL, NULL)
                                                : (puts("Bail out! etcd does not start"), 1);
    server_fini(&etcd);
    return failed;
}
