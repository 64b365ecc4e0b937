/* What an answer means. The table of refusals, and what becomes of each:
 *
 *   what the server says, or what happens       outcome          and then
 *   ------------------------------------------  ---------------  -------------------------------------------------------
 *   connection refused, reset, closed, silent   EUNAVAILABLE     connect again: 20 ms, doubling to 640, jittered
 *   TLS is wanted, and the server speaks none   ESTORE           the same
 *   subscription connection lost                -                the same; CHANGED once everything is subscribed again
 *   NOSCRIPT (restart, SCRIPT FLUSH)            -                the same request once more, with the script's text
 *   LOADING, BUSY, MASTERDOWN, TRYAGAIN,        EUNAVAILABLE     the next request may do better
 *     CLUSTERDOWN, NOREPLICAS, MISCONF, OOM
 *   READONLY (the master is a replica now)      EUNAVAILABLE     connect again, with a new look at the name
 *   max number of clients reached               EUNAVAILABLE     connect again
 *   NOAUTH, WRONGPASS, NOPERM, no password set  EPERM            connect again later: somebody may put it right
 *   WRONGTYPE                                   ECORRUPT         an earlier simba made it, or the key is somebody else's
 *   BADGRANT (from our scripts)                 ECORRUPT         somebody must delete the grant
 *   MOVED, ASK                                  -                redis+cluster: send it there, a few times at most;
 *                                               ESTORE           otherwise it is another kind of URL that is needed
 *   CROSSSLOT                                   ESTORE           likewise
 *   any other error                             ESTORE
 *   an answer of another form                   ECORRUPT         connect again: who knows what comes next
 *   bytes that are not the protocol             EUNAVAILABLE     connect again
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/redis/redis.h"
#include "util/error.h"

/* --- refusals ----------------------------------------------------------------------------------------- */

static const struct {
    const char *word;
    int code;
    bool drop;
} known[] = {
    {"LOADING", SIMBA_EUNAVAILABLE, false},
    {"BUSY", SIMBA_EUNAVAILABLE, false},
    {"MASTERDOWN", SIMBA_EUNAVAILABLE, false},
    {"TRYAGAIN", SIMBA_EUNAVAILABLE, false},
    {"CLUSTERDOWN", SIMBA_EUNAVAILABLE, false},
    {"NOREPLICAS", SIMBA_EUNAVAILABLE, false},
    {"MISCONF", SIMBA_EUNAVAILABLE, false},
    {"OOM", SIMBA_EUNAVAILABLE, false},
    {"READONLY", SIMBA_EUNAVAILABLE, true},
    {"ERR max number of clients", SIMBA_EUNAVAILABLE, true},
    {"NOAUTH", SIMBA_EPERM, true},
    {"WRONGPASS", SIMBA_EPERM, true},
    {"NOPERM", SIMBA_EPERM, false},
    {"ERR AUTH", SIMBA_EPERM, true},
    {"ERR invalid password", SIMBA_EPERM, true},
    {"ERR Protocol error: unauthenticated", SIMBA_EPERM, true}, /* it takes no long commands before AUTH */
    {"WRONGTYPE", SIMBA_ECORRUPT, false},
    {"BADGRANT", SIMBA_ECORRUPT, false},
    {"NOSCRIPT", SIMBA_EUNAVAILABLE, true},
    {"MOVED", SIMBA_ESTORE, false},
    {"ASK", SIMBA_ESTORE, false},
    {"CROSSSLOT", SIMBA_ESTORE, false},
};

static bool begins_with_word(const char *text, const char *word)
{
    const size_t length = strlen(word);
    return strncmp(text, word, length) == 0 && (text[length] == ' ' || text[length] == '\0');
}

/* Servers before 7 put a preamble before an error from inside a script: "ERR Error running script (…): …: OOM …". */
bool simba__redis_says(const char *error, const char *word)
{
    if (begins_with_word(error, word))
        return true;
    if (strncmp(error, "ERR Error running script", 24) != 0)
        return false;
    for (const char *at = error; (at = strstr(at, ": ")) != NULL;) {
        at += 2;
        at += *at == '-';
        if (begins_with_word(at, word))
            return true;
    }
    return false;
}

/* Says in plain words why the server does not let us in. */
static const char *refusal(const char *text)
{
    if (simba__redis_says(text, "NOAUTH") || strstr(text, "unauthenticated"))
        return "the server wants a password";
    if (simba__redis_says(text, "NOPERM"))
        return "this user may not use the commands, keys or channels that are needed";
    return "the server does not accept the user or the password";
}

int simba__redis_error(const simba__endpoint *at, const char *text, simba_error *ret_error, bool *ret_drop)
{
    int code = SIMBA_ESTORE;
    *ret_drop = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (simba__redis_says(text, known[i].word)) {
            code = known[i].code;
            *ret_drop = known[i].drop;
            break;
        }
    /* A server that does not know AUTH repeats our arguments behind a comma. */
    const size_t length = strcspn(text, strncmp(text, "ERR unknown command", 19) == 0 ? "," : "");
    /* A Redis server does not repeat passwords, but an impostor might: show only the first word of such an error. */
    if (code == SIMBA_EPERM)
        simba__error_set(ret_error, code, "redis %s: %s (%.*s)", at->where, refusal(text), (int)strcspn(text, " "),
                         text);
    else if (simba__redis_says(text, "MOVED") || simba__redis_says(text, "ASK") || simba__redis_says(text, "CROSSSLOT"))
        simba__error_set(ret_error, code,
                         "redis %s: this is a Redis Cluster, for which there is redis+cluster://: %.80s", at->where,
                         text);
    else if (simba__redis_says(text, "WRONGTYPE"))
        simba__error_set(
            ret_error, code,
            "redis %s: its keys were made by an earlier simba: end its programs and run `simba init` (%.65s)",
            at->where, text);
    else
        simba__error_set(ret_error, code, "redis %s: %.*s", at->where, length < 180 ? (int)length : 180, text);
    return code;
}

/* --- the answers of the scripts ----------------------------------------------------------------------- */

bool simba__redis_is_text(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS;
}

/* The numbers of a script are doubles, which are exact below this. Nobody computes with larger ones. */
static const int64_t number_end = INT64_C(1) << 53;

/* A number, or a text of digits. */
static bool take_number(const redisReply *reply, int64_t *ret_number)
{
    int64_t number = -1;
    char *end = NULL;
    if (reply->type == REDIS_REPLY_INTEGER)
        number = reply->integer;
    else if (reply->type == REDIS_REPLY_STRING && reply->len > 0 && reply->len < 17 && reply->str[0] != '-')
        number = strtoll(reply->str, &end, 10);
    if (number < 0 || number >= number_end || (end && *end != '\0'))
        return false;
    *ret_number = number;
    return true;
}

/* {outcome, now} or {outcome, now, owner, token, end, transition} and maybe a place. A JVM contender's id may be longer than
 * one of ours. */
static int parse_answer(const redisReply *reply, simba_reply *ret_reply)
{
    simba_reply parsed = {0};
    simba_owner *owner = &parsed.owner;
    int64_t outcome;
    int64_t token = 0;
    int64_t transition_ms = 0;
    if (reply->type != REDIS_REPLY_ARRAY || (reply->elements != 2 && reply->elements != 6 && reply->elements != 7))
        return -1;
    redisReply *const *part = reply->element;
    if (!take_number(part[0], &outcome) || outcome > REDIS_TOO_YOUNG || !take_number(part[1], &parsed.now_ms) ||
        parsed.now_ms == 0)
        return -1;
    if (reply->elements > 2) {
        if (part[2]->type != REDIS_REPLY_STRING || part[2]->len == 0 || !take_number(part[3], &token) ||
            !take_number(part[4], &owner->transition_at_ms) || !take_number(part[5], &transition_ms) ||
            (reply->elements > 6 && !take_number(part[6], &parsed.place)))
            return -1;
        const size_t length = (size_t)part[2]->len;
        memcpy(owner->id, part[2]->str, length < SIMBA_ID_MAX ? length : SIMBA_ID_MAX);
        owner->token = (uint64_t)token;
        owner->acquired_at_ms = token / 1000; /* the clock's microseconds, or a little more if the clock stepped back */
        owner->ttl_at_ms = owner->transition_at_ms > transition_ms ? owner->transition_at_ms - transition_ms : 0;
    }
    parsed.outcome = outcome == REDIS_TOO_YOUNG ? SIMBA_NOT_MINE : (simba_outcome)outcome;
    *ret_reply = parsed;
    return (int)outcome;
}

int simba__redis_parse(const redisReply *reply, const simba_request *request, simba_reply *ret_reply)
{
    const int outcome = parse_answer(reply, ret_reply);
    if (outcome == REDIS_TOO_YOUNG && request->op != SIMBA_OP_ACQUIRE)
        return -1;
    if (request->op != SIMBA_OP_ACQUIRE && outcome >= 0)
        ret_reply->place = 0;
    return outcome;
}

int simba__redis_parse_row(const redisReply *reply, redis_row *ret_row)
{
    *ret_row = (redis_row){0};
    int64_t token;
    simba_stored_note *note = &ret_row->note;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 6 ||
        parse_answer(reply->element[0], &ret_row->reply) != 0)
        return SIMBA_ESTORE;
    redisReply *const *part = reply->element;
    if (!take_number(part[1], &ret_row->waiters) || part[2]->type != REDIS_REPLY_STRING ||
        part[5]->type != REDIS_REPLY_STRING)
        return SIMBA_ESTORE;
    if (part[2]->len > 0 && part[2]->len <= SIMBA_ID_MAX)
        ret_row->next = part[2]->str;
    if (!take_number(part[3], &token) || !take_number(part[4], &note->written_at_ms) || part[5]->len > SIMBA_NOTE_MAX)
        return SIMBA_ECORRUPT;
    note->token = (uint64_t)token;
    note->bytes = part[5]->str;
    note->size = (size_t)part[5]->len;
    const redisReply *owner = part[0];
    return owner->elements > 2 && owner->element[2]->len > SIMBA_ID_MAX ? SIMBA_ECORRUPT : 0;
}

const char *simba__redis_info(const char *info, const char *name, char *text, size_t size)
{
    const size_t length = strlen(name);
    text[0] = '\0';
    for (const char *line = info; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ':') {
            line += length + 1;
            snprintf(text, size, "%.*s", (int)strcspn(line, "\r\n"), line);
            break;
        }
    }
    return text;
}
