/* A connection to a Redis server: logs in, asks how old the server is, and hands whole replies to its owner. Below it, a
 * discovery: a question to several servers, one after the other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/redis/redis.h"
#include "util/clock.h"
#include "util/digits.h"
#include "util/error.h"
#include "util/mem.h"

enum { PING_MS = 10000 }; /* of silence, on a connection that listens */

static redis_conn *of(simba__link *link)
{
    return SIMBA__OF_ITEM(link, redis_conn, link);
}

/* --- commands, as bytes ------------------------------------------------------------------------------- */

static void put_number(simba__buffer *out, char kind, size_t number)
{
    char text[SIMBA__DIGITS_SIZE + 3] = {kind};
    size_t length = 1 + simba__digits(text + 1, number, 1);
    text[length++] = '\r';
    text[length++] = '\n';
    simba__buffer_put(out, text, length);
}

void simba__redis_put_count(simba__buffer *out, size_t words)
{
    put_number(out, '*', words);
}

void simba__redis_put_bytes(simba__buffer *out, const void *bytes, size_t size)
{
    put_number(out, '$', size);
    if (size > 0)
        simba__buffer_put(out, bytes, size);
    simba__buffer_put(out, "\r\n", 2);
}

void simba__redis_put_word(simba__buffer *out, const char *word)
{
    simba__redis_put_bytes(out, word, strlen(word));
}

void simba__redis_put(simba__buffer *out, size_t words, const char *const *word)
{
    simba__redis_put_count(out, words);
    for (size_t i = 0; i < words; i++)
        simba__redis_put_word(out, word[i]);
}

/* --- replies, within bounds --------------------------------------------------------------------------- */

/* hiredis believes a server: it allocates as many elements as an array claims, keeps as many bytes as a string claims, and
 * frees nested replies by recursion. A broken or hostile server must not cost us more than a few megabytes. So a reply that
 * is larger than any answer to our commands is refused before it is read. */
enum {
    BYTES_MOST = 8 << 20, /* of one reply. The largest: CLUSTER SLOTS with every slot on its own, or a page of SCAN */
    ELEMENTS_MOST = 256 << 10, /* of one reply, with the elements of nested arrays */
    DEPTH_MOST = 6,            /* CLUSTER SLOTS has four */
    LINE_MOST = 64 << 10,      /* whenever more of a line has come, hiredis looks for its end from its beginning */
};

#if HIREDIS_MAJOR >= 1
typedef size_t array_length;
#else
typedef int array_length;
#endif

struct redis_reader {
    redisReader *parser;
    redisReplyObjectFunctions make;         /* those of hiredis */
    redisReplyObjectFunctions make_bounded; /* they count first */
    size_t bytes;                           /* of the reply that it reads now */
    size_t elements;
};

/* Returns the reader if it may take `count` more elements; NULL: the reply is too large. */
static redis_reader *admit(const redisReadTask *task, size_t count)
{
    redis_reader *reader = task->privdata;
    unsigned depth = 0;
    for (const redisReadTask *at = task; at && depth <= DEPTH_MOST; at = at->parent)
        depth++;
    if (count > ELEMENTS_MOST - reader->elements || depth > DEPTH_MOST)
        return NULL;
    reader->elements += count;
    return reader;
}

static void *make_string(const redisReadTask *task, char *text, size_t length)
{
    const redis_reader *reader = admit(task, 0);
    return reader ? reader->make.createString(task, text, length) : NULL;
}

static void *make_array(const redisReadTask *task, array_length elements)
{
    const redis_reader *reader = admit(task, (size_t)elements);
    return reader ? reader->make.createArray(task, elements) : NULL;
}

static void *make_integer(const redisReadTask *task, long long number)
{
    const redis_reader *reader = admit(task, 0);
    return reader ? reader->make.createInteger(task, number) : NULL;
}

static void *make_nil(const redisReadTask *task)
{
    const redis_reader *reader = admit(task, 0);
    return reader ? reader->make.createNil(task) : NULL;
}

redis_reader *simba__redis_reader_new(void)
{
    redis_reader *reader = simba__calloc(1, sizeof *reader);
    redisReader *parser = reader ? redisReaderCreate() : NULL;
    if (!parser) {
        simba__free(reader);
        return NULL;
    }
    reader->parser = parser;
    reader->make = reader->make_bounded = *parser->fn;
    reader->make_bounded.createString = make_string;
    reader->make_bounded.createArray = make_array;
    reader->make_bounded.createInteger = make_integer;
    reader->make_bounded.createNil = make_nil;
    parser->fn = &reader->make_bounded;
    parser->privdata = reader;
    return reader;
}

void simba__redis_reader_free(redis_reader *reader)
{
    if (!reader)
        return;
    redisReaderFree(reader->parser);
    simba__free(reader);
}

int simba__redis_reader_feed(redis_reader *reader, const char *data, size_t length)
{
    if (length > BYTES_MOST - reader->bytes)
        return SIMBA_ECORRUPT;
    reader->bytes += length;
    return redisReaderFeed(reader->parser, data, length) == REDIS_OK ? 0 : SIMBA_ENOMEM;
}

int simba__redis_reader_next(redis_reader *reader, redisReply **ret_reply)
{
    void *reply = NULL;
    redisReader *parser = reader->parser;
    if (redisReaderGetReply(parser, &reply) != REDIS_OK)
        return SIMBA_ECORRUPT;
    if (reply)
        reader->bytes = reader->elements = 0;
    else if (parser->len - parser->pos > LINE_MOST && !memchr(parser->buf + parser->pos, '\r', LINE_MOST))
        return SIMBA_ECORRUPT;
    *ret_reply = reply;
    return 0;
}

/* --- the greeting ------------------------------------------------------------------------------------- */

static void set_timer(simba__link *link, int64_t ns)
{
    link->host->timer_set(link->host, &link->timer, (simba_local){link->host->now(link->host).ns + ns});
}

static void greet(redis_conn *conn, size_t words, const char *const *word)
{
    simba__redis_put(&conn->link.out, words, word);
    conn->greeting++;
}

static void come_up(redis_conn *conn)
{
    conn->link.host->timer_clear(conn->link.host, &conn->link.timer);
    if (conn->listens)
        set_timer(&conn->link, PING_MS * SIMBA__NS_PER_MS);
    conn->events->up(conn);
}

static void on_up(simba__link *link)
{
    redis_conn *conn = of(link);
    const redis_login *login = conn->login;
    char db[24];
    conn->reader = simba__redis_reader_new();
    if (!conn->reader) {
        simba__link_fail(link, SIMBA_EUNAVAILABLE, "redis %s: cannot connect: out of memory", link->at.where);
        return;
    }
    conn->greeting = 0;
    conn->pinged = conn->has_shards = conn->uninformed = false;
    conn->uptime_s = conn->time_ms = 0;
    if (login->password && login->user)
        greet(conn, 3, (const char *const[]){"AUTH", login->user, login->password});
    else if (login->password)
        greet(conn, 2, (const char *const[]){"AUTH", login->password});
    if (login->db != 0) {
        snprintf(db, sizeof db, "%ld", login->db);
        greet(conn, 2, (const char *const[]){"SELECT", db});
    }
    if (conn->informs) {
        greet(conn, 2, (const char *const[]){"INFO", "server"});
        greet(conn, 1, (const char *const[]){"TIME"});
    }
    if (login->to_master)
        greet(conn, 1, (const char *const[]){"ROLE"});
    if (conn->greeting == 0)
        come_up(conn);
    else
        set_timer(link, conn->link.connect_timeout_ns);
}

void simba__redis_conn_refused(redis_conn *conn, const char *text)
{
    simba_error error;
    bool drop;
    simba__redis_error(&conn->link.at, text, &error, &drop);
    simba__link_fail(&conn->link, error.code, "%s", error.text);
}

/* Uptime is the difference of two seconds that are cut off: it may be almost a second ahead of the truth. If the server's clock was
 * set back, it is negative. */
static void take_info(redis_conn *conn, const char *info)
{
    char text[32];
    conn->has_shards = strtol(simba__redis_info(info, "redis_version", text, sizeof text), NULL, 10) >= 7;
    conn->uptime_s = strtoll(simba__redis_info(info, "uptime_in_seconds", text, sizeof text), NULL, 10);
    conn->uptime_s = conn->uptime_s > 0 ? conn->uptime_s : 0;
    conn->uninformed = text[0] == '\0';
}

/* Take the next answer to the greeting. ROLE, the last, says which kind of server this is, whatever a sentinel claims. */
static void take_greeting(redis_conn *conn, const redisReply *reply)
{
    const redis_login *login = conn->login;
    const unsigned left = --conn->greeting;
    const bool is_role = login->to_master && left == 0;
    const bool is_time = conn->informs && left == (login->to_master ? 1 : 0);
    const bool is_info = conn->informs && left == (login->to_master ? 2 : 1);
    if (reply->type == REDIS_REPLY_ERROR && is_info && !simba__redis_says(reply->str, "NOAUTH")) {
        conn->uninformed = true;
    } else if (reply->type == REDIS_REPLY_ERROR) {
        simba__redis_conn_refused(conn, reply->str);
        return;
    } else if (is_info && reply->type == REDIS_REPLY_STRING) {
        take_info(conn, reply->str);
    } else if (is_info) {
        conn->uninformed = true;
    } else if (is_time && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
               simba__redis_is_text(reply->element[0])) {
        conn->time_ms = (strtoll(reply->element[0]->str, NULL, 10) + 1) * 1000;
    }
    if (is_role && (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0 ||
                    reply->element[0]->type != REDIS_REPLY_STRING || strcmp(reply->element[0]->str, "master") != 0))
        simba__link_fail(&conn->link, SIMBA_EUNAVAILABLE, "redis %s: this is no master", conn->link.at.where);
    else if (left == 0)
        come_up(conn);
}

bool simba__redis_conn_ready(const redis_conn *conn)
{
    return conn->link.state == SIMBA__LINK_UP && conn->greeting == 0 && conn->reader;
}

/* --- its life ----------------------------------------------------------------------------------------- */

/* Take every whole reply that has come. The owner may give the connection up over one of them. */
static void on_bytes(simba__link *link, const char *data, size_t length)
{
    redis_conn *conn = of(link);
    const unsigned life = link->life;
    const int rc = simba__redis_reader_feed(conn->reader, data, length);
    if (rc < 0) {
        simba__link_fail(link, rc == SIMBA_ENOMEM ? SIMBA_ENOMEM : SIMBA_EUNAVAILABLE, "redis %s: %s", link->at.where,
                         rc == SIMBA_ENOMEM ? "out of memory" : "an answer is larger than any that was asked for");
        return;
    }
    while (link->life == life) {
        redisReply *reply = NULL;
        if (simba__redis_reader_next(conn->reader, &reply) < 0) {
            simba__link_fail(link, SIMBA_EUNAVAILABLE, "redis %s: what came is not Redis's protocol", link->at.where);
            return;
        }
        if (!reply)
            return;
        const bool greets = conn->greeting > 0;
        conn->pinged = false;
        if (greets)
            take_greeting(conn, reply);
        else
            conn->events->answer(conn, reply);
        /* Not for the greeting alone: a server that cannot serve us for a while greets us anyway. */
        if (!greets && link->life == life && reply->type != REDIS_REPLY_ERROR)
            link->failures = link->hurries = 0;
        freeReplyObject(reply);
    }
}

static void on_find(simba__link *link)
{
    if (of(link)->find)
        of(link)->find(of(link));
    else
        simba__link_found(link);
}

static void drop_reader(redis_conn *conn)
{
    simba__redis_reader_free(conn->reader);
    conn->reader = NULL;
    conn->greeting = 0;
}

static void on_down(simba__link *link)
{
    drop_reader(of(link));
    of(link)->events->down(of(link));
}

static void on_tick(simba__link *link, simba_local now)
{
    redis_conn *conn = of(link);
    if (conn->greeting > 0) {
        simba__link_fail(link, SIMBA_EUNAVAILABLE, "redis %s: cannot connect: no answer", link->at.where);
    } else if (!conn->listens) {
        conn->events->tick(conn, now);
    } else if (conn->pinged) {
        simba__link_fail(link, SIMBA_EUNAVAILABLE, "redis %s: what is listened to is silent", link->at.where);
    } else {
        conn->pinged = true;
        simba__redis_put(&link->out, 2, (const char *const[]){"PING", ""});
        set_timer(link, conn->options->timeout_ns);
        simba__link_flush(link);
    }
}

static const simba__link_events link_events = {
    .find = on_find, .up = on_up, .bytes = on_bytes, .down = on_down, .tick = on_tick};

int simba__redis_conn_init(redis_conn *conn, redis_conns *all, const redis_conn_events *events, void *owner)
{
    conn->options = all->options;
    conn->login = &all->options->login;
    conn->events = events;
    conn->owner = owner;
    return simba__link_init(&conn->link, &all->links, &link_events, all->options->connect_timeout_ns);
}

void simba__redis_conn_close(redis_conn *conn)
{
    simba__link_close(&conn->link);
    drop_reader(conn);
}

void simba__redis_conn_fini(redis_conn *conn)
{
    simba__link_fini(&conn->link);
}

/* --- a question to several servers -------------------------------------------------------------------- */

/* It collects the errors of the servers, so that its own error can say what each one answered. It keeps no connection open,
 * because questions are rare. */

/* How many servers it asks at a time; the next discovery asks the others. They share one connect-timeout, and each needs
 * enough of it to answer. */
enum { MOST = 8 };

static void end(redis_discovery *discovery, const simba_error *error)
{
    discovery->running = false;
    simba__redis_conn_close(&discovery->conn);
    discovery->over(discovery, error);
}

static void ask_next(redis_discovery *discovery)
{
    redis_conn *conn = &discovery->conn;
    simba__redis_conn_close(conn);
    if (discovery->asked == discovery->most) {
        discovery->first += discovery->asked;
        end(discovery, &discovery->error);
        return;
    }
    conn->link.at = discovery->candidates[(discovery->first + discovery->asked++) % discovery->count];
    discovery->until = (simba_local){conn->link.host->now(conn->link.host).ns + conn->link.connect_timeout_ns};
    simba__link_open(&conn->link);
}

static void complain(redis_discovery *discovery, int code, const char *why)
{
    char *text = discovery->error.text;
    const size_t length = strlen(text);
    /* An error that a person must mend counts more than one that may pass by itself. */
    if (discovery->error.code == 0 || discovery->error.code == SIMBA_EUNAVAILABLE)
        discovery->error.code = code;
    snprintf(text + length, sizeof discovery->error.text - length, "%s%s", length > 0 ? "; " : "", why);
}

static void discovery_up(redis_conn *conn)
{
    redis_discovery *discovery = conn->owner;
    simba__redis_put(&conn->link.out, discovery->words, discovery->question);
    conn->link.host->timer_set(conn->link.host, &conn->link.timer, discovery->until);
}

static void discovery_answer(redis_conn *conn, const redisReply *reply)
{
    redis_discovery *discovery = conn->owner;
    simba_error error;
    bool drop;
    char why[160] = "";
    if (reply->type == REDIS_REPLY_ERROR) {
        simba__redis_error(&conn->link.at, reply->str, &error, &drop);
    } else if (discovery->take(discovery, reply, why, sizeof why)) {
        discovery->first += discovery->asked - 1; /* the next discovery begins with this server */
        end(discovery, NULL);
        return;
    } else {
        simba__error_set(&error, SIMBA_EUNAVAILABLE, "redis %s: %s", conn->link.at.where, why);
    }
    complain(discovery, error.code, error.text);
    ask_next(discovery);
}

static void discovery_down(redis_conn *conn)
{
    complain(conn->owner, conn->link.error.code, conn->link.error.text);
    ask_next(conn->owner);
}

static void discovery_tick(redis_conn *conn, simba_local now)
{
    (void)now;
    simba__link_fail(&conn->link, SIMBA_EUNAVAILABLE, "redis %s: no answer", conn->link.at.where);
}

static const redis_conn_events discovery_events = {
    .up = discovery_up, .answer = discovery_answer, .down = discovery_down, .tick = discovery_tick};

int simba__redis_discovery_init(redis_discovery *discovery, redis_conns *conns, const redis_login *login)
{
    const int rc = simba__redis_conn_init(&discovery->conn, conns, &discovery_events, discovery);
    discovery->conn.login = login;
    discovery->first =
        (size_t)(conns->links.host->random(conns->links.host) % 1024); /* so that not every client asks the same one */
    return rc;
}

void simba__redis_discovery_start(redis_discovery *discovery, const simba__endpoint *candidates, size_t count)
{
    redis_conn *conn = &discovery->conn;
    discovery->running = true;
    discovery->candidates = candidates;
    discovery->count = count;
    discovery->asked = 0;
    discovery->most = count < MOST ? count : MOST;
    discovery->error = (simba_error){0};
    conn->link.connect_timeout_ns = conn->options->connect_timeout_ns / (int64_t)discovery->most;
    ask_next(discovery);
}

void simba__redis_discovery_close(redis_discovery *discovery)
{
    discovery->running = false;
    simba__redis_conn_close(&discovery->conn);
}

void simba__redis_discovery_fini(redis_discovery *discovery)
{
    simba__redis_conn_fini(&discovery->conn);
}
