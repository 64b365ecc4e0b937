/* What an answer means. The table of refusals, and what becomes of each:
 *
 *   what the server says, or what happens       outcome          and then
 *   ------------------------------------------  ---------------  -------------------------------------------------------
 *   connection refused, reset, closed, silent   EUNAVAILABLE     connect again: 20 ms, doubling to 640, jittered
 *   TLS is wanted, and the server speaks none   ESTORE           the same
 *   subscription connection lost                -                the same; CHANGED once everything is subscribed again
 *   NOSCRIPT (restart, SCRIPT FLUSH)            -                load the scripts, send the call again, once
 *   LOADING, BUSY, MASTERDOWN, TRYAGAIN,        EUNAVAILABLE     the next request may do better
 *     CLUSTERDOWN, NOREPLICAS, MISCONF, OOM
 *   READONLY (the master is a replica now)      EUNAVAILABLE     connect again, with a new look at the name
 *   max number of clients reached               EUNAVAILABLE     connect again
 *   NOAUTH, WRONGPASS, NOPERM, no password set  EPERM            connect again later: somebody may put it right
 *   WRONGTYPE                                   ECORRUPT         a key of ours is somebody else's
 *   BADFENCE (from our scripts)                 ECORRUPT         somebody has to delete the fence
 *   MOVED, ASK                                  -                redis+cluster: send it there, a few times at most;
 *                                               ESTORE           otherwise it is another kind of URL that is needed
 *   CROSSSLOT                                   ESTORE           likewise
 *   any other error                             ESTORE
 *   an answer of another form                   ECORRUPT         connect again: who knows what comes next
 *   bytes that are not the protocol             EUNAVAILABLE     connect again
 */
#include <stdio.h>
#include <string.h>

#include "backends/redis/reply.h"
#include "util/error.h"

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
    {"WRONGTYPE", SIMBA_ECORRUPT, false},
    {"BADFENCE", SIMBA_ECORRUPT, false},
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
static bool says(const char *text, const char *word)
{
    if (begins_with_word(text, word))
        return true;
    if (strncmp(text, "ERR Error running script", 24) != 0)
        return false;
    const char *at = text;
    while ((at = strstr(at, ": ")) != NULL) {
        at += 2;
        at += *at == '-';
        if (begins_with_word(at, word))
            return true;
    }
    return false;
}

static int error_code(const char *text, bool *ret_drop)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (says(text, known[i].word)) {
            *ret_drop = known[i].drop;
            return known[i].code;
        }
    *ret_drop = false;
    return SIMBA_ESTORE;
}

/* Says in plain words why the server does not let us in. */
static const char *refusal(const char *text)
{
    if (says(text, "NOAUTH"))
        return "the server wants a password";
    if (says(text, "NOPERM"))
        return "this user may not use the commands, keys or channels that are needed";
    return "the server does not accept the user or the password";
}

/* How many bytes of an error to show. A server that does not know AUTH repeats our arguments behind a comma. */
static int shown(const char *text)
{
    const bool repeats = strncmp(text, "ERR unknown command", 19) == 0;
    const size_t length = strcspn(text, repeats ? "," : "");
    return length < 180 ? (int)length : 180;
}

int simba__redis_error(const simba__endpoint *at, const char *text, simba_error *ret_error, bool *ret_drop)
{
    const int code = error_code(text, ret_drop);
    /* A Redis server does not repeat passwords, but an impostor might: show only the first word of such an error. */
    if (code == SIMBA_EPERM)
        simba__error_set(ret_error, code, "redis %s: %s (%.*s)", at->where, refusal(text), (int)strcspn(text, " "),
                         text);
    else if (says(text, "MOVED") || says(text, "ASK") || says(text, "CROSSSLOT"))
        simba__error_set(ret_error, code,
                         "redis %s: this is a Redis Cluster, for which there is redis+cluster://: %.80s", at->where,
                         text);
    else
        simba__error_set(ret_error, code, "redis %s: %.*s", at->where, shown(text), text);
    return code;
}

/* --- the answers of the scripts ----------------------------------------------------------------------- */

/* The numbers of a script are doubles, which are exact below this. Nobody computes with larger ones. */
static const int64_t number_end = INT64_C(1) << 53;

static bool take_number(const redisReply *reply, int64_t *ret_number)
{
    if (reply->type != REDIS_REPLY_INTEGER || reply->integer < 0 || reply->integer >= number_end)
        return false;
    *ret_number = reply->integer;
    return true;
}

/* A JVM contender's id may be longer than one of ours. */
static bool take_id(const redisReply *reply, char ret_id[SIMBA_ID_MAX + 1])
{
    if (reply->type != REDIS_REPLY_STRING)
        return false;
    const size_t length = (size_t)reply->len;
    memcpy(ret_id, reply->str, length < SIMBA_ID_MAX ? length : SIMBA_ID_MAX);
    return true;
}

/* A free mutex has neither token nor lease; an owner's ttl ends no later than its transition. */
static bool is_consistent(const simba_owner *owner)
{
    if (owner->id[0] == '\0')
        return owner->token == 0 && owner->acquired_at_ms == 0 && owner->ttl_at_ms == 0 && owner->transition_at_ms == 0;
    return owner->ttl_at_ms <= owner->transition_at_ms;
}

/* A field of a grant: `width` digits, and `end` after them. */
static bool take_digits(const char **text, size_t width, const char *end, int64_t *ret_number)
{
    uint64_t number = 0;
    for (size_t i = 0; i < width; i++, (*text)++) {
        if (**text < '0' || **text > '9')
            return false;
        number = number * 10 + (uint64_t)(**text - '0');
    }
    const size_t length = strlen(end);
    if (number >= (uint64_t)number_end || strncmp(*text, end, length) != 0)
        return false;
    *text += length;
    *ret_number = (int64_t)number;
    return true;
}

/* A grant as it is stored, up to the id of its owner; scripts.c describes it. A JVM contender's id may be longer than one of
 * ours. */
static bool take_grant(const char *text, simba_owner *ret_owner)
{
    int64_t token;
    int64_t revoked;
    int64_t transition_ms;
    if (!take_digits(&text, 16, " ", &token) || strspn(text, "0123456789") != 20 || text[20] != ' ')
        return false;
    text += 21;
    if (!take_digits(&text, 15, " ", &ret_owner->transition_at_ms) || !take_digits(&text, 16, " ", &revoked) ||
        !take_digits(&text, 15, " ", &ret_owner->acquired_at_ms))
        return false;
    const size_t width = strspn(text, "0123456789");
    if (width == 0 || width > 16 || !take_digits(&text, width, "@@", &transition_ms))
        return false;
    const char *end = strstr(text, "@@");
    if (!end)
        return false;
    const size_t length = (size_t)(end - text);
    memcpy(ret_owner->id, text, length < SIMBA_ID_MAX ? length : SIMBA_ID_MAX);
    ret_owner->token = (uint64_t)token;
    ret_owner->ttl_at_ms =
        ret_owner->transition_at_ms > transition_ms ? ret_owner->transition_at_ms - transition_ms : 0;
    return true;
}

/* The answer to a grant is the grant. */
static bool parse_grant(const redisReply *reply, const simba_request *request, simba_reply *ret_reply)
{
    simba_reply parsed = {.outcome = SIMBA_MINE};
    simba_owner *owner = &parsed.owner;
    if (request->op != SIMBA_OP_ACQUIRE || strlen(reply->str) != (size_t)reply->len || !take_grant(reply->str, owner))
        return false;
    owner->ttl_at_ms = owner->transition_at_ms - request->transition_ms;
    parsed.now_ms = owner->ttl_at_ms - request->ttl_ms;
    *ret_reply = parsed;
    return parsed.now_ms > 0;
}

/* Who joins the queue is answered with "#", its place, the time, and the grant of whoever has the mutex, or an invitation in the form of
 * one. */
static bool parse_place(const redisReply *reply, const simba_request *request, simba_reply *ret_reply,
                        int64_t *ret_place)
{
    simba_reply parsed = {.outcome = SIMBA_NOT_MINE};
    const char *text = reply->str + 1;
    const size_t width = strspn(text, "0123456789");
    if (request->op != SIMBA_OP_ACQUIRE || width == 0 || width > 16 || !take_digits(&text, width, " ", ret_place) ||
        !take_digits(&text, 15, " ", &parsed.now_ms) || !take_grant(text, &parsed.owner))
        return false;
    *ret_reply = parsed;
    return parsed.now_ms > 0 && parsed.owner.id[0];
}

/* The answer to a renewal is two fields of the grant. */
static bool parse_renewal(const redisReply *reply, const simba_request *request, simba_reply *ret_reply)
{
    simba_reply parsed = {.outcome = SIMBA_MINE};
    simba_owner *owner = &parsed.owner;
    const char *text = reply->str;
    if (strlen(text) != (size_t)reply->len || !take_digits(&text, 15, " ", &owner->transition_at_ms) ||
        !take_digits(&text, 15, "", &owner->acquired_at_ms) || *text != '\0')
        return false;
    strcpy(owner->id, request->id); /* the script has compared it with the lock, and the token with the grant */
    owner->token = request->token;
    owner->ttl_at_ms = owner->transition_at_ms - request->transition_ms;
    parsed.now_ms = owner->ttl_at_ms - request->ttl_ms;
    *ret_reply = parsed;
    return parsed.now_ms > 0;
}

/* The scripts answer a grant or a renewal with a line, a release with a number, and who joins the queue with a line, unless it
 * was in it before; everything else with a list. */
static bool answers_by_line(const simba_request *request)
{
    return request->op == SIMBA_OP_ACQUIRE || request->op == SIMBA_OP_RENEW || request->op == SIMBA_OP_RELEASE;
}

bool simba__redis_parse(const redisReply *reply, const simba_request *request, simba_reply *ret_reply,
                        int64_t *ret_more)
{
    *ret_more = 0;
    if (reply->type == REDIS_REPLY_STRING && reply->str[0] == '#')
        return parse_place(reply, request, ret_reply, ret_more);
    if (reply->type == REDIS_REPLY_STRING)
        return request->op == SIMBA_OP_RENEW ? parse_renewal(reply, request, ret_reply)
                                             : parse_grant(reply, request, ret_reply);
    if (reply->type == REDIS_REPLY_INTEGER && reply->integer == 1 && request->op == SIMBA_OP_RELEASE) {
        *ret_reply = (simba_reply){.outcome = SIMBA_MINE};
        return true;
    }
    simba_reply parsed = {0};
    simba_owner *owner = &parsed.owner;
    int64_t outcome;
    int64_t token;
    int64_t more = 0;
    const size_t most =
        request->op == SIMBA_OP_LIST ? 10 : 8; /* a row of a list also has the note and who comes next */
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 7 || reply->elements > most)
        return false;
    redisReply *const *part = reply->element;
    if (!take_number(part[0], &outcome) || !take_number(part[1], &parsed.now_ms) || !take_id(part[2], owner->id) ||
        !take_number(part[3], &token) || !take_number(part[4], &owner->acquired_at_ms) ||
        !take_number(part[5], &owner->ttl_at_ms) || !take_number(part[6], &owner->transition_at_ms) ||
        (reply->elements > 7 && !take_number(part[7], &more)))
        return false;
    parsed.outcome = (simba_outcome)outcome;
    owner->token = (uint64_t)token;
    if (outcome > SIMBA_REVOKED || (outcome == SIMBA_MINE && answers_by_line(request)) || parsed.now_ms == 0 ||
        !is_consistent(owner))
        return false;
    *ret_reply = parsed;
    *ret_more = more;
    return true;
}

/* --- notes ------------------------------------------------------------------------------------------ */

bool simba__redis_take_note(const redisReply *text, simba_stored_note *ret_note)
{
    *ret_note = (simba_stored_note){0};
    if (text->type != REDIS_REPLY_STRING)
        return false;
    if (text->len == 0)
        return true;
    const char *at = text->str; /* hiredis puts a zero behind it, which is no digit */
    int64_t token;
    if (!take_digits(&at, 16, " ", &token) || strspn(at, "0123456789") != 20 || at[20] != ' ')
        return false;
    at += 21;
    if (!take_digits(&at, 15, " ", &ret_note->written_at_ms))
        return false;
    ret_note->token = (uint64_t)token;
    ret_note->bytes = at;
    ret_note->size = (size_t)text->len - (size_t)(at - text->str);
    return ret_note->size <= SIMBA_NOTE_MAX;
}

bool simba__redis_is_note(const redisReply *reply, int64_t *ret_now_ms)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && take_number(reply->element[0], ret_now_ms) &&
           reply->element[1]->type == REDIS_REPLY_STRING;
}
