/* See log.h. */
#include "client/log.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/error.h"
#include "util/escape.h"

#define SPAN_UNKNOWN INT64_MIN

/* The values of an event, which has only some of them. */
typedef struct facts {
    const char *mutex, *id, *owner, *reason, *request, *error, *store, *server; /* NULL: "" */
    uint64_t token;
    int64_t left_ms, session_ms, margin_ms, slept_ms;
} facts;

typedef enum notice {
#define NOTICE(name, event, level, sentence, has) name,
    SIMBA__NOTICES(NOTICE)
#undef NOTICE
} notice;

static const struct {
    const char *event;
    const char *sentence;
    simba_log_level level;
    unsigned facts;
} notices[] = {
#define ROW(name, event, level, sentence, has) {event, sentence, SIMBA_LOG_##level, has},
    SIMBA__NOTICES(ROW)
#undef ROW
};

static bool is_heard(const simba_client_options *to, simba_log_level level)
{
    return (to->log || to->log_record) && level <= to->log_level;
}

/* --- handing over ------------------------------------------------------------------------------------ */

/* A log function gets the sentence, followed by the fields. */
static void hand_over(const simba_client_options *to, const simba_log_record *record)
{
    char text[2 * SIMBA__FORMAT_MAX];
    if (to->log_record) {
        to->log_record(to->log_user, record);
        return;
    }
    int at = snprintf(text, sizeof text, "%s%s", record->message, record->field_count > 0 ? ";" : "");
    for (size_t i = 0; i < record->field_count && at >= 0 && (size_t)at < sizeof text; i++) {
        char value[SIMBA__FORMAT_MAX];
        at += snprintf(text + at, sizeof text - (size_t)at, " %s=%s", record->fields[i].key,
                       simba__quote(record->fields[i].value, value, sizeof value));
    }
    to->log(to->log_user, record->level, text);
}

static const char *number_text(char *room, size_t size, uint64_t number)
{
    snprintf(room, size, "%" PRIu64, number);
    return room;
}

static void say_at(const simba_client_options *to, simba_log_level level, notice what, const char *sentence,
                   const facts *known)
{
    simba_log_field fields[SIMBA__FACT_COUNT];
    char numbers[SIMBA__FACT_COUNT][24];
    size_t count = 0;
    if (!is_heard(to, level))
        return;
#define NUMBER(member) number_text(numbers[count], sizeof numbers[0], (uint64_t)known->member)
#define TEXT(member) known->member ? known->member : ""
#define SPAN(member)                                                                                                   \
    known->member == SPAN_UNKNOWN                                                                                      \
        ? ""                                                                                                           \
        : number_text(numbers[count], sizeof numbers[0], known->member > 0 ? (uint64_t)known->member : 0)
#define ADD(name, member, kind)                                                                                        \
    if (notices[what].facts & SIMBA__HAS(name)) {                                                                      \
        fields[count] = (simba_log_field){#member, kind(member)};                                                      \
        count++;                                                                                                       \
    }
    SIMBA__FACTS(ADD)
#undef ADD
#undef SPAN
#undef TEXT
#undef NUMBER
    const simba_log_record record = {
        .size = sizeof record,
        .level = level,
        .event = notices[what].event,
        .message = sentence ? sentence : notices[what].sentence,
        .fields = fields,
        .field_count = count,
    };
    hand_over(to, &record);
}

static void say(const simba_client_options *to, notice what, const facts *known)
{
    say_at(to, notices[what].level, what, NULL, known);
}

static void say_note(const simba_client_options *to, simba_log_level level, const char *text)
{
    const simba_log_record record = {.size = sizeof record, .level = level, .event = "note", .message = text};
    if (is_heard(to, level))
        hand_over(to, &record);
}

void simba__vlog(const simba_client_options *to, simba_log_level level, const char *format, va_list args)
{
    char text[512];
    if (!is_heard(to, level))
        return;
    simba__escape_format(text, sizeof text, format, args);
    say_note(to, level, text);
}

void simba__log(const simba_client_options *to, simba_log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    simba__vlog(to, level, format, args);
    va_end(args);
}

void simba__log_slept(const simba_client_options *to, int64_t ms)
{
    say(to, SLEPT, &(facts){.slept_ms = ms});
}

/* --- the event log ------------------------------------------------------------------------------------ */

/* A word of a line has no blanks and no unprintable bytes. */
static size_t add_word(char *line, size_t size, size_t at, const char *text)
{
    while (*text && at + 4 < size) {
        uint32_t code;
        size_t length = simba__utf8_next(text, &code);
        if (length > 0 && simba__is_printable(code) && *text != ' ' && *text != '%') {
            for (; length > 0; length--)
                line[at++] = *text++;
        } else {
            at += (size_t)snprintf(line + at, size - at, "%%%02x", (unsigned char)*text++);
        }
    }
    line[at] = '\0';
    return at;
}

struct moment {
    const simba__candidate *candidate;
    int64_t at_ns;
};

static void write_line(void *user, const char *words)
{
    const struct moment *moment = user;
    const simba__candidate *candidate = moment->candidate;
    char line[SIMBA_MUTEX_BYTES * 3 + SIMBA_ID_MAX * 3 + 192];
    size_t at = (size_t)snprintf(line, sizeof line, "%lld ", (long long)moment->at_ns);
    at = add_word(line, sizeof line - 160, at, candidate->handle.watch->mutex);
    line[at++] = '/';
    at = add_word(line, sizeof line - 160, at, candidate->id);
    snprintf(line + at, sizeof line - at, " %s", words);
    say_note(&candidate->handle.client->options, SIMBA_LOG_EVENT, line);
}

/* The name of this host's boot-time clock: every boot has another one. */
static char boot[40] = "unknown";

static void read_boot(void)
{
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    const ssize_t length = fd >= 0 ? read(fd, boot, sizeof boot - 1) : -1;
    if (length > 0)
        boot[strcspn(boot, " \n")] = '\0';
    if (fd >= 0)
        close(fd);
}

/* What the other clocks show at the moment of the event: the wall clock always, the store's with an answer. The store looked at its
 * clock between the request and the answer. */
static void write_clocks(const simba__step *step, struct moment *moment)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const simba__event *event = step->event;
    const bool answered = event->kind == SIMBA__EV_REPLY && event->reply->status == 0 && event->reply->now_ms > 0 &&
                          event->sent_at.ns > 0;
    char words[160];
    if (event->kind != SIMBA__EV_START && !answered)
        return;
    pthread_once(&once, read_boot);
    const size_t at = (size_t)snprintf(words, sizeof words, "clock %" PRId64, simba__clock_epoch_us() * 1000);
    if (answered)
        snprintf(words + at, sizeof words - at, " %" PRId64 "000000 %" PRId64 " %s", event->reply->now_ms,
                 event->now.ns - event->sent_at.ns, boot);
    else
        snprintf(words + at, sizeof words - at, " - - %s", boot);
    write_line(moment, words);
}

void simba__log_callback(const simba__candidate *candidate, const char *words)
{
    if (is_heard(&candidate->handle.client->options, SIMBA_LOG_EVENT))
        write_line(&(struct moment){candidate, simba__clock_boot().ns}, words);
}

/* --- a contender -------------------------------------------------------------------------------------- */

static facts facts_of(const simba__candidate *candidate, simba_local now)
{
    const simba_local session = {atomic_load(&candidate->handle.client->session_until_ns)};
    const simba_local until = simba__contention_valid_until(&candidate->machine);
    return (facts){
        .mutex = candidate->handle.watch->mutex,
        .id = candidate->id,
        .token = candidate->machine.token,
        .left_ms = simba__lease_left_ns(until, session, now) / SIMBA__NS_PER_MS,
    };
}

static void say_of(const simba__candidate *candidate, notice what)
{
    const facts known = facts_of(candidate, candidate->handle.client->now);
    say(&candidate->handle.client->options, what, &known);
}

/* Log which owner it waits for: at first, and when the owner changes. A push during a request may be news of our own grant; the
 * answer decides. */
static void say_owner(simba__candidate *candidate, const simba__actions *actions, simba_local now)
{
    const simba__contention *machine = &candidate->machine;
    if (actions->changed)
        candidate->said.waits = false;
    if (machine->phase != SIMBA__SEEK || machine->in_flight || candidate->said.waits ||
        simba_owner_is_none(&machine->owner))
        return;
    candidate->said.waits = true;
    facts known = facts_of(candidate, now);
    known.owner = machine->owner.id;
    known.left_ms = machine->timing->session ? SPAN_UNKNOWN : (candidate->owner_until.ns - now.ns) / SIMBA__NS_PER_MS;
    say(&candidate->handle.client->options, WAITS, &known);
}

void simba__log_lease(simba__candidate *candidate, bool renewed)
{
    if (candidate->machine.phase != SIMBA__HOLD || candidate->said.late != renewed)
        return;
    candidate->said.late = !renewed;
    say_of(candidate, renewed ? RENEWED_LATE : CANNOT_RENEW);
}

void simba__log_cannot_lead(const simba__candidate *candidate, int64_t session_ms)
{
    say(&candidate->handle.client->options, CANNOT_LEAD,
        &(facts){.mutex = candidate->handle.watch->mutex,
                 .id = candidate->id,
                 .session_ms = session_ms,
                 .margin_ms = candidate->machine.timing->ms.stop_margin_ms});
}

void simba__log_step(simba__candidate *candidate, const simba__step *step)
{
    const simba_client_options *to = &candidate->handle.client->options;
    const simba__event *event = step->event;
    const simba__actions *actions = step->actions;
    if (!to->log && !to->log_record)
        return;
    if (actions->released || actions->acquired || event->kind == SIMBA__EV_START)
        candidate->said = (simba__said){false, false};
    if (event->kind == SIMBA__EV_START)
        say_of(candidate, CONTENDS);
    if (actions->released) {
        const bool asked_for = actions->reason == SIMBA_REASON_STOPPED || actions->reason == SIMBA_REASON_HOLD_LIMIT;
        facts known = facts_of(candidate, event->now);
        known.reason = simba_reason_name(actions->reason);
        say(to, asked_for ? RELEASED : LOST, &known);
    }
    if (actions->acquired)
        say_of(candidate, ACQUIRED);
    else if (event->kind == SIMBA__EV_REPLY && !step->machine->timing->session)
        simba__log_lease(candidate, event->reply->status == 0);
    say_owner(candidate, actions, event->now);
    if (is_heard(to, SIMBA_LOG_EVENT)) {
        struct moment moment = {candidate, event->now.ns};
        write_clocks(step, &moment);
        simba__trace_step(step, 0, write_line, &moment);
    }
}

/* --- the store ------------------------------------------------------------------------------------------ */

void simba__log_answer(simba_client *client)
{
    const bool answers = client->store_state == SIMBA__STORE_ANSWERS;
    if (answers && !client->backend->server)
        return; /* a store with a single server has nothing new to say once it answers */
    /* A store that chooses among servers names the one; otherwise the hosts or the file of the URL name it. */
    const char *server = client->backend->server ? client->backend->server(client->store) : "";
    if (!server[0])
        server = simba_url_authority(client->url);
    if (!server[0])
        server = simba_url_path(client->url);
    const size_t compared = sizeof client->said_server - 1;
    if (answers && strncmp(client->said_server, server, compared) == 0)
        return;
    const bool again = client->store_state != SIMBA__STORE_UNKNOWN;
    client->store_state = SIMBA__STORE_ANSWERS;
    snprintf(client->said_server, sizeof client->said_server, "%s", server);
    say(&client->options, again ? RECONNECTED : CONNECTED,
        &(facts){.store = simba_url_shown(client->url), .server = server});
}

simba_error simba__log_failure(simba_client *client, const simba_request *request, const simba_error *cause)
{
    enum { SAME_CAUSE_MS = 60000 };
    const bool away = cause->code == SIMBA_EUNAVAILABLE || cause->code == SIMBA_ETIMEDOUT;
    simba_error whole = *cause;
    simba__wrap(&whole, cause->code, "%s%s%s", simba__op_name(request->op), request->mutex ? " " : "",
                request->mutex ? request->mutex : "");
    if (away && client->store_state == SIMBA__STORE_ANSWERS)
        client->store_state = SIMBA__STORE_FAILS;
    /* A cause is new if it differs from the last one, or something was granted or renewed in between. Every contender finds it
     * out, again and again while it lasts. */
    const uint64_t successes = client->stats.grants + client->stats.renewals;
    const bool known = strcmp(client->last_cause.text, cause->text) == 0 && successes == client->last_cause_successes &&
                       client->now.ns - client->last_cause_at.ns < SAME_CAUSE_MS * SIMBA__NS_PER_MS;
    if (!known) {
        client->last_cause = *cause;
        client->last_cause_at = client->now;
        client->last_cause_successes = successes;
    }
    say_at(&client->options, known ? SIMBA_LOG_DEBUG : SIMBA_LOG_WARN, STORE_FAILED, whole.text,
           &(facts){.mutex = request->mutex,
                    .request = simba__op_name(request->op),
                    .error = simba_error_name(cause->code),
                    .store = simba_url_shown(client->url)});
    return whole;
}

void simba__log_forgets(simba_client *client, const char *text)
{
    if (client->said_forgets)
        return;
    client->said_forgets = true;
    say_at(&client->options, SIMBA_LOG_WARN, STORE_FORGETS, text, &(facts){.store = simba_url_shown(client->url)});
}
