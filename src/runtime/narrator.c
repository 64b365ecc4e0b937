/* See narrator.h. */
#include "runtime/narrator.h"

#include <stdio.h>
#include <string.h>

#include "runtime/notice.h"
#include "util/clock.h"

/* --- a contender ------------------------------------------------------------------------------------ */

static simba__facts facts_of(const simba__narrator *who, simba_local now)
{
    const simba_local session = {atomic_load(&who->client->session_until_ns)};
    const simba_local until = simba__contention_valid_until(who->machine);
    return (simba__facts){
        .mutex = who->mutex,
        .id = who->id,
        .token = who->machine->token,
        .left_ms = simba__lease_left_ns(until, session, now) / SIMBA__NS_PER_MS,
    };
}

static void say(const simba__narrator *who, simba__notice notice, simba_local now)
{
    const simba__facts facts = facts_of(who, now);
    simba__notice_say(&who->client->options, notice, &facts);
}

static void say_end(const simba__narrator *who, simba_reason reason, simba_local now)
{
    const bool asked_for = reason == SIMBA_REASON_STOPPED || reason == SIMBA_REASON_HOLD_LIMIT;
    simba__facts facts = facts_of(who, now);
    facts.reason = simba_reason_name(reason);
    simba__notice_say(&who->client->options, asked_for ? SIMBA__NOTICE_RELEASED : SIMBA__NOTICE_LOST, &facts);
}

/* Log which owner it waits for: at first, and when the owner changes. A push during a request may be news of our own
 * grant; the answer decides. */
static void look_at_owner(const simba__narrator *who, const simba__actions *actions, simba_local now)
{
    const simba__contention *machine = who->machine;
    if (actions->changed)
        who->said->waits = false;
    if (machine->phase != SIMBA__SEEK || machine->in_flight || who->said->waits || !machine->owner.id)
        return;
    who->said->waits = true;
    simba__facts facts = facts_of(who, now);
    facts.owner = machine->owner.id;
    facts.left_ms = machine->timing->session ? SIMBA__SPAN_UNKNOWN : (who->owner_until.ns - now.ns) / SIMBA__NS_PER_MS;
    simba__notice_say(&who->client->options, SIMBA__NOTICE_WAITS, &facts);
}

void simba__narrate_lease(const simba__narrator *who, bool renewed, simba_local now)
{
    if (who->machine->phase != SIMBA__HOLD || who->said->late != renewed)
        return;
    who->said->late = !renewed;
    say(who, renewed ? SIMBA__NOTICE_RENEWED_LATE : SIMBA__NOTICE_CANNOT_RENEW, now);
}

void simba__narrate_step(const simba__narrator *who, const simba__event *event, const simba__actions *actions)
{
    if (actions->released || actions->acquired || event->kind == SIMBA__EV_START)
        *who->said = (simba__said){false, false};
    if (event->kind == SIMBA__EV_START)
        say(who, SIMBA__NOTICE_CONTENDS, event->now);
    if (actions->released)
        say_end(who, actions->reason, event->now);
    if (actions->acquired)
        say(who, SIMBA__NOTICE_ACQUIRED, event->now);
    else if (event->kind == SIMBA__EV_REPLY && !who->machine->timing->session)
        simba__narrate_lease(who, event->reply->status == 0, event->now);
    look_at_owner(who, actions, event->now);
}

/* --- the store ---------------------------------------------------------------------------------------- */

const char *simba__op_name(simba_op op)
{
    static const char *const names[] = {
        [SIMBA_OP_ACQUIRE] = "acquire",     [SIMBA_OP_RENEW] = "renew",     [SIMBA_OP_RELEASE] = "release",
        [SIMBA_OP_READ] = "read",           [SIMBA_OP_LIST] = "list",       [SIMBA_OP_FORCE_RELEASE] = "force release",
        [SIMBA_OP_EXAMINE] = "examine",     [SIMBA_OP_PREPARE] = "prepare", [SIMBA_OP_WRITE_NOTE] = "write note",
        [SIMBA_OP_READ_NOTE] = "read note", [SIMBA_OP_FORGET] = "forget",
    };
    return names[op];
}

/* A store that chooses among servers names the one; otherwise the hosts or the file of the URL name it. */
static const char *server_of(const simba_client *client)
{
    const char *server = client->backend->server ? client->backend->server(client->store) : "";
    const char *authority = simba_url_authority(client->url);
    return server[0] ? server : authority[0] ? authority : simba_url_path(client->url);
}

void simba__narrate_answer(simba_client *client)
{
    const bool answers = client->store_state == SIMBA__STORE_ANSWERS;
    const char *server = server_of(client);
    const size_t compared = sizeof client->said_server - 1;
    if (answers && strncmp(client->said_server, server, compared) == 0)
        return;
    const bool again = client->store_state != SIMBA__STORE_UNKNOWN;
    const simba__facts facts = {.store = simba_url_shown(client->url), .server = server};
    client->store_state = SIMBA__STORE_ANSWERS;
    snprintf(client->said_server, sizeof client->said_server, "%s", server);
    simba__notice_say(&client->options, again ? SIMBA__NOTICE_RECONNECTED : SIMBA__NOTICE_CONNECTED, &facts);
}

/* Log a cause when it is new: it differs from the last one, or something was granted or renewed in between. Every
 * contender finds it out, again and again while it lasts; log that once a minute. */
static simba_log_level level_of(simba_client *client, const simba_error *cause)
{
    enum { SAME_CAUSE_MS = 60000 };
    const uint64_t successes = client->stats.grants + client->stats.renewals;
    if (strcmp(client->last_cause.text, cause->text) == 0 && successes == client->last_cause_successes &&
        client->turn.now.ns - client->last_cause_at.ns < SAME_CAUSE_MS * SIMBA__NS_PER_MS)
        return SIMBA_LOG_DEBUG;
    client->last_cause = *cause;
    client->last_cause_at = client->turn.now;
    client->last_cause_successes = successes;
    return SIMBA_LOG_WARN;
}

void simba__narrate_failure(simba_client *client, const simba_request *request, const simba_error *cause,
                            const simba_error *whole)
{
    const bool away = cause->code == SIMBA_EUNAVAILABLE || cause->code == SIMBA_ETIMEDOUT;
    const simba__facts facts = {
        .mutex = request->mutex,
        .request = simba__op_name(request->op),
        .error = simba_error_name(cause->code),
        .store = simba_url_shown(client->url),
    };
    if (away && client->store_state == SIMBA__STORE_ANSWERS)
        client->store_state = SIMBA__STORE_FAILS;
    simba__notice_say_at(&client->options, level_of(client, cause), SIMBA__NOTICE_STORE_FAILED, whole->text, &facts);
}
