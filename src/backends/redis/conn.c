/* See conn.h. */
#include "backends/redis/conn.h"

#include <stdio.h>
#include <string.h>

#include "backends/redis/reply.h"
#include "backends/redis/writer.h"
#include "util/clock.h"

enum { PING_MS = 10000 }; /* of silence */

static redis_conn *of(simba__link *link)
{
    return (redis_conn *)(void *)((char *)link - offsetof(redis_conn, link));
}

static void drop_reader(redis_conn *conn)
{
    simba__redis_reader_free(conn->reader);
    conn->reader = NULL;
}

/* --- answers ---------------------------------------------------------------------------------------- */

/* ROLE says which kind of server this is, whatever the topology claims. */
static void take_role(redis_conn *conn, const redisReply *reply)
{
    const redisReply *role = reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 ? reply->element[0] : NULL;
    if (!role || role->type != REDIS_REPLY_STRING || strcmp(role->str, "master") != 0)
        simba__link_fail(&conn->link, SIMBA_EUNAVAILABLE, "redis %s: this is no master", conn->link.at.where);
}

void simba__redis_conn_refused(redis_conn *conn, const char *text)
{
    simba_error error;
    bool drop;
    simba__redis_error(&conn->link.at, text, &error, &drop);
    simba__link_fail(&conn->link, error.code, "%s", error.text);
}

static void take_greeting(redis_conn *conn, const redisReply *reply)
{
    conn->greeting--;
    if (reply->type == REDIS_REPLY_ERROR)
        simba__redis_conn_refused(conn, reply->str);
    else if (conn->greeting == 0 && conn->login->to_master)
        take_role(conn, reply);
}

/* Take every whole reply that has come. The owner may give the connection up over one of them. */
static void take_replies(redis_conn *conn)
{
    const unsigned life = conn->link.life;
    while (conn->link.life == life) {
        redisReply *reply = NULL;
        if (simba__redis_reader_next(conn->reader, &reply) < 0) {
            simba__link_fail(&conn->link, SIMBA_EUNAVAILABLE, "redis %s: what came is not Redis's protocol",
                             conn->link.at.where);
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
        /* Do not reset it for the greeting alone: a server that cannot serve us for a while greets us all the same. */
        if (!greets && conn->link.life == life && reply->type != REDIS_REPLY_ERROR)
            conn->link.failures = conn->link.hurries = 0;
        freeReplyObject(reply);
    }
}

static bool feed_reader(redis_conn *conn, const char *data, size_t length)
{
    const int rc = simba__redis_reader_feed(conn->reader, data, length);
    if (rc == SIMBA_ENOMEM)
        simba__link_fail(&conn->link, SIMBA_ENOMEM, "redis %s: out of memory", conn->link.at.where);
    else if (rc < 0)
        simba__link_fail(&conn->link, SIMBA_EUNAVAILABLE, "redis %s: an answer is larger than any that was asked for",
                         conn->link.at.where);
    return rc == 0;
}

static void on_bytes(simba__link *link, const char *data, size_t length)
{
    if (feed_reader(of(link), data, length))
        take_replies(of(link));
}

/* --- up and down ------------------------------------------------------------------------------------ */

static void put_greeting(redis_conn *conn)
{
    const redis_login *login = conn->login;
    conn->greeting = 0;
    if (login->password && login->user) {
        simba__redis_put(&conn->link.out, 3, (const char *const[]){"AUTH", login->user, login->password});
        conn->greeting++;
    } else if (login->password) {
        simba__redis_put(&conn->link.out, 2, (const char *const[]){"AUTH", login->password});
        conn->greeting++;
    }
    if (login->db != 0) {
        char db[24];
        snprintf(db, sizeof db, "%ld", login->db);
        simba__redis_put(&conn->link.out, 2, (const char *const[]){"SELECT", db});
        conn->greeting++;
    }
    if (login->to_master) {
        simba__redis_put(&conn->link.out, 1, (const char *const[]){"ROLE"});
        conn->greeting++;
    }
}

static void on_find(simba__link *link)
{
    if (of(link)->find)
        of(link)->find(of(link));
    else
        simba__link_found(link);
}

static void set_timer(simba__link *link, int64_t ns)
{
    link->host->timer_set(link->host, &link->timer, (simba_local){link->host->now(link->host).ns + ns});
}

static void on_up(simba__link *link)
{
    redis_conn *conn = of(link);
    conn->reader = simba__redis_reader_new();
    if (!conn->reader) {
        simba__link_fail(link, SIMBA_EUNAVAILABLE, "redis %s: cannot connect: out of memory", link->at.where);
        return;
    }
    put_greeting(conn);
    conn->pinged = false;
    if (conn->listens)
        set_timer(link, PING_MS * SIMBA__NS_PER_MS);
    conn->events->up(conn);
}

static void on_down(simba__link *link)
{
    drop_reader(of(link));
    of(link)->events->down(of(link));
}

static void on_tick(simba__link *link, simba_local now)
{
    redis_conn *conn = of(link);
    if (!conn->listens) {
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
