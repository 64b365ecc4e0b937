/* Puts the same question to several servers, one after the other, until one gives a usable answer. It collects the
 * errors of the others, so that its own error can say what each server answered. It keeps no connection open, because
 * questions are rare. */
#include "backends/redis/inquiry.h"

#include <stdio.h>
#include <string.h>

#include "backends/redis/reply.h"
#include "backends/redis/writer.h"
#include "util/error.h"

/* How many servers it asks at a time; the next inquiry asks the others. They share one connect-timeout, and each needs
 * enough of it to answer. */
enum { MOST = 8 };

static redis_inquiry *of(redis_conn *conn)
{
    return conn->owner;
}

static void end(redis_inquiry *inquiry, const simba_error *error)
{
    inquiry->running = false;
    simba__redis_conn_close(&inquiry->conn);
    inquiry->over(inquiry, error);
}

static void ask_next(redis_inquiry *inquiry)
{
    redis_conn *conn = &inquiry->conn;
    simba__redis_conn_close(conn);
    if (inquiry->asked == inquiry->most) {
        inquiry->first += inquiry->asked;
        end(inquiry, &inquiry->error);
        return;
    }
    conn->link.at = inquiry->candidates[(inquiry->first + inquiry->asked++) % inquiry->count];
    inquiry->until = (simba_local){conn->link.host->now(conn->link.host).ns + conn->link.connect_timeout_ns};
    simba__link_open(&conn->link);
}

static void complain(redis_inquiry *inquiry, int code, const char *why)
{
    char *text = inquiry->error.text;
    const size_t length = strlen(text);
    /* An error that a person has to mend counts more than one that may pass by itself. */
    if (inquiry->error.code == 0 || inquiry->error.code == SIMBA_EUNAVAILABLE)
        inquiry->error.code = code;
    snprintf(text + length, sizeof inquiry->error.text - length, "%s%s", length > 0 ? "; " : "", why);
}

static void on_up(redis_conn *conn)
{
    redis_inquiry *inquiry = of(conn);
    simba__redis_put(&conn->link.out, inquiry->words, inquiry->question);
    conn->link.host->timer_set(conn->link.host, &conn->link.timer, inquiry->until);
}

static void on_answer(redis_conn *conn, const redisReply *reply)
{
    redis_inquiry *inquiry = of(conn);
    simba_error error;
    bool drop;
    char why[160] = "";
    if (reply->type == REDIS_REPLY_ERROR) {
        simba__redis_error(&conn->link.at, reply->str, &error, &drop);
    } else if (inquiry->take(inquiry, reply, why, sizeof why)) {
        inquiry->first += inquiry->asked - 1; /* the next inquiry begins with this server */
        end(inquiry, NULL);
        return;
    } else {
        simba__error_set(&error, SIMBA_EUNAVAILABLE, "redis %s: %s", conn->link.at.where, why);
    }
    complain(inquiry, error.code, error.text);
    ask_next(inquiry);
}

static void on_down(redis_conn *conn)
{
    complain(of(conn), conn->link.error.code, conn->link.error.text);
    ask_next(of(conn));
}

static void on_tick(redis_conn *conn, simba_local now)
{
    (void)now;
    simba__link_fail(&conn->link, SIMBA_EUNAVAILABLE, "redis %s: no answer", conn->link.at.where);
}

static const redis_conn_events events = {.up = on_up, .answer = on_answer, .down = on_down, .tick = on_tick};

int simba__redis_inquiry_init(redis_inquiry *inquiry, redis_conns *conns, const redis_login *login)
{
    const int rc = simba__redis_conn_init(&inquiry->conn, conns, &events, inquiry);
    inquiry->conn.login = login;
    inquiry->first =
        (size_t)(conns->links.host->random(conns->links.host) % 1024); /* so that not every client asks the same one */
    return rc;
}

void simba__redis_inquiry_start(redis_inquiry *inquiry, const simba__endpoint *candidates, size_t count)
{
    redis_conn *conn = &inquiry->conn;
    inquiry->running = true;
    inquiry->candidates = candidates;
    inquiry->count = count;
    inquiry->asked = 0;
    inquiry->most = count < MOST ? count : MOST;
    inquiry->error = (simba_error){0};
    conn->link.connect_timeout_ns = conn->options->connect_timeout_ns / (int64_t)inquiry->most;
    ask_next(inquiry);
}

void simba__redis_inquiry_close(redis_inquiry *inquiry)
{
    inquiry->running = false;
    simba__redis_conn_close(&inquiry->conn);
}

void simba__redis_inquiry_fini(redis_inquiry *inquiry)
{
    simba__redis_conn_fini(&inquiry->conn);
}
