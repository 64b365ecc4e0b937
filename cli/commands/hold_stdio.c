/* `simba hold --stdio`: one process holds many mutexes, for requests that come as lines of JSON. docs/hold.schema.json describes
 * them and the answers. A line may come from a program with a mistake in it: whatever it says, it is answered, and bounded. */
#include "hold.h"

#include <stdio.h>
#include <string.h>

#include "net/json.h"

#define CULPRIT_MAX 80 /* bytes of a line that an error shows */

typedef struct request {
    simba__json line; /* an object */
    hold_id id;
    char mutex[SIMBA_MUTEX_BYTES + 1];
} request;

void hold_greet(hold *h)
{
    json_writer j = hold_begin_line(h, "hello", NULL, NULL);
    json_number(&j, "version", HOLD_VERSION);
    json_text(&j, "simba", simba_version());
    json_number(&j, "mutexes_max", HOLD_MUTEXES_MAX);
    json_number(&j, "line_max", HOLD_LINE_MAX);
    hold_end_line(h, &j);
}

static void acquire(hold *h, const request *r)
{
    const simba__json wait = simba__json_get(r->line, "wait_ms");
    held *m = hold_find(h, r->mutex);
    int64_t wait_ms = -1;
    if (wait.length > 0 && (!simba__json_int(wait, &wait_ms) || wait_ms < 0))
        hold_print_error(h, &r->id, r->mutex, SIMBA_EINVAL,
                         "\"wait_ms\" is a number of 0 or more, or missing for ever");
    else if (m != NULL && m->leaves && !m->again) {
        m->again = true;
        m->again_id = r->id;
        m->again_wait_ms = wait_ms;
    } else if (m != NULL)
        hold_print_error(h, &r->id, r->mutex, SIMBA_ESTATE, "%s is %s already", r->mutex,
                         m->token != 0 && !m->leaves ? "held" : "asked for");
    else if (h->count >= HOLD_MUTEXES_MAX)
        hold_print_error(h, &r->id, r->mutex, SIMBA_ESTATE, "one process holds and asks for %d mutexes at most",
                         HOLD_MUTEXES_MAX);
    else
        hold_acquire(h, r->mutex, wait_ms, &r->id);
}

/* Also for a mutex that is only asked for, and while its note is being written. */
static void release(hold *h, const request *r)
{
    held *m = hold_find(h, r->mutex);
    if (m == NULL || (m->asked && !m->again)) {
        hold_print_error(h, &r->id, r->mutex, SIMBA_ESTATE, "%s is %s", r->mutex,
                         m != NULL ? "being given back" : "neither held nor asked for");
    } else if (m->again) {
        m->again = false;
        hold_print_error(h, &m->again_id, r->mutex, SIMBA_ECANCELED, "the wait was cancelled");
        json_writer j = hold_begin_line(h, "released", &r->id, r->mutex);
        hold_end_line(h, &j);
    } else {
        m->leaves = true;
        m->asked = true;
        m->leave_id = r->id;
    }
}

static void note(hold *h, const request *r)
{
    const simba__json text = simba__json_get(r->line, "note");
    held *m = hold_find(h, r->mutex);
    char bytes[SIMBA_NOTE_MAX + 1] = "";
    if (text.length > 0 && !simba__json_text(text, bytes, sizeof bytes)) {
        hold_print_error(h, &r->id, r->mutex, SIMBA_EINVAL, "\"note\" is a text of at most %d bytes, none of them zero",
                         SIMBA_NOTE_MAX);
    } else if (m == NULL || m->token == 0 || m->leaves || m->lost) {
        hold_print_error(h, &r->id, r->mutex, SIMBA_ESTATE, "%s is not held", r->mutex);
    } else if (m->work != HOLD_IDLE) {
        hold_print_error(h, &r->id, r->mutex, SIMBA_ESTATE, "another request about the note of %s is not answered yet",
                         r->mutex);
    } else {
        m->note.length = strlen(bytes);
        memcpy(m->note.bytes, bytes, sizeof bytes);
        if (!hold_begin_work(m, text.length > 0 ? HOLD_WRITE_NOTE : HOLD_READ_NOTE, &r->id))
            hold_print_error(h, &r->id, r->mutex, SIMBA_ESYSTEM, "no thread could be made to wait on");
    }
}

static void held_for(hold *h, const request *r)
{
    const held *m = hold_find(h, r->mutex);
    simba_lease lease = SIMBA_LEASE_INIT;
    const bool holds = m != NULL && m->token != 0 && !m->leaves && !m->lost;
    if (holds)
        simba_locker_lease(m->locker, &lease);
    json_writer j = hold_begin_line(h, "held_for", &r->id, r->mutex);
    json_token(&j, "token", lease.held_for_ms > 0 ? &m->token : NULL);
    json_number(&j, "valid_ms", lease.held_for_ms);
    hold_end_line(h, &j);
}

/* The id goes back as it came: a text or a number. */
static bool read_id(simba__json id, hold_id *ret_id)
{
    if (id.length > HOLD_ANSWER_ID_MAX || (id.length > 0 && strchr("\"-0123456789", id.at[0]) == NULL))
        return false;
    memcpy(ret_id->json, id.at != NULL ? id.at : "", id.length);
    ret_id->json[id.length] = '\0';
    return true;
}

void hold_serve(hold *h, const char *line, size_t length)
{
    static const struct {
        const char *name;
        void (*act)(hold *h, const request *r);
    } acts[] = {{"acquire", acquire}, {"release", release}, {"note", note}, {"held_for", held_for}};
    request r = {.id = {""}};
    char what[32];
    const int shown = length < CULPRIT_MAX ? (int)length : CULPRIT_MAX;
    if (length == SIZE_MAX) {
        hold_print_error(h, NULL, NULL, SIMBA_EINVAL, "a line has at most %d bytes; this one began with: %.*s",
                         HOLD_LINE_MAX, shown, line);
        return;
    }
    if (!simba__json_read(line, length, &r.line) || r.line.at[0] != '{') {
        hold_print_error(h, NULL, NULL, SIMBA_EINVAL, "no JSON object: %.*s", shown, line);
        return;
    }
    if (!read_id(simba__json_get(r.line, "id"), &r.id)) {
        hold_print_error(h, NULL, NULL, SIMBA_EINVAL, "\"id\" is a text or a number of at most %d bytes: %.*s",
                         HOLD_ANSWER_ID_MAX, shown, line);
        return;
    }
    simba__json_text(simba__json_get(r.line, "do"), what, sizeof what);
    if (!simba__json_text(simba__json_get(r.line, "mutex"), r.mutex, sizeof r.mutex) || r.mutex[0] == '\0') {
        hold_print_error(h, &r.id, NULL, SIMBA_EINVAL, "\"mutex\" is missing, or longer than a name: %.*s", shown,
                         line);
        return;
    }
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++) {
        if (strcmp(what, acts[i].name) == 0) {
            acts[i].act(h, &r);
            return;
        }
    }
    hold_print_error(h, &r.id, r.mutex, SIMBA_EINVAL, "\"do\" is acquire, release, note or held_for: %.*s", shown,
                     line);
}
