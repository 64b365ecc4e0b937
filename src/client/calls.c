/* Blocking calls that ask the store something without a handle. */
#include "client/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/error.h"
#include "util/escape.h"
#include "util/mem.h"
#include "util/sized.h"
#include "util/text.h"

struct row {
    struct row *next;
    simba_listing shown; /* its owner is below; its texts and its note are in `texts` */
    simba_owner owner;
    char texts[];
};

struct finding {
    struct finding *next;
    simba_finding shown; /* its texts are in `texts` */
    char texts[];
};

/* On the stack of the thread that waits for the answer. */
struct call {
    simba_client *client;
    simba_reply reply;
    simba_error *err;
    struct row *rows; /* of a LIST, the latest first */
    size_t count;
    struct finding *findings, **findings_end; /* of an EXAMINE */
    bool answered;
};

/* NULL: nobody waits any more. */
static struct call *of(simba_request *request)
{
    return ((simba__request *)(void *)request)->of;
}

static void answered(simba__request *request, const simba_error *error)
{
    struct call *call = request->of;
    call->answered = true;
    call->reply = request->shown.reply;
    if (error && call->err)
        *call->err = *error;
    simba__wake(call->client, call);
}

int simba__calls_listed(simba_host *host, simba_request *request, const simba_listing *listing)
{
    (void)host;
    struct call *call = of(request);
    if (!call)
        return SIMBA_ETIMEDOUT;
    simba_listing told = {.size = sizeof told, .waiters = -1};
    if (simba__sized_tell(&told, listing) < 0 || !told.mutex || !told.owner)
        return SIMBA_EINVAL;
    if (!told.note)
        told.note_length = 0;
    if (told.note_length > SIMBA_NOTE_MAX)
        return SIMBA_ECORRUPT;
    const size_t mutex_size = strlen(told.mutex) + 1;
    const size_t next_size = told.next ? strnlen(told.next, SIMBA_ID_MAX) + 1 : 0;
    struct row *row = simba__malloc(sizeof *row + mutex_size + next_size + told.note_length);
    if (!row)
        return SIMBA_ENOMEM;
    char *next = row->texts + mutex_size;
    row->owner = *told.owner;
    row->shown = told;
    row->shown.owner = &row->owner;
    row->shown.mutex = memcpy(row->texts, told.mutex, mutex_size);
    if (told.next) {
        snprintf(next, next_size, "%s", told.next); /* one that is longer than an id can be is cut */
        row->shown.next = next;
    }
    row->shown.note = told.note_length > 0 ? memcpy(next + next_size, told.note, told.note_length) : NULL;
    row->next = call->rows;
    call->rows = row;
    call->count++;
    return 0;
}

/* Room for a text, escaped: stores quote the errors of their servers. */
static size_t text_room(const char *text)
{
    return text ? SIMBA__ESCAPED_SIZE(strlen(text)) + 8 : 0;
}

/* Append a text to the others. */
static const char *add_text(char **end, const char *text)
{
    char *at = *end;
    if (!text)
        return NULL;
    simba__escape(text, at, text_room(text));
    *end = at + strlen(at) + 1;
    return at;
}

int simba__calls_found(simba_host *host, simba_request *request, const simba_finding *finding)
{
    (void)host;
    struct call *call = of(request);
    if (!call)
        return SIMBA_ETIMEDOUT;
    simba_finding told = {.size = sizeof told};
    if (simba__sized_tell(&told, finding) < 0)
        return SIMBA_EINVAL;
    const size_t size = text_room(told.what) + text_room(told.text) + text_room(told.remedy);
    struct finding *made = simba__malloc(sizeof *made + size);
    if (!made)
        return SIMBA_ENOMEM;
    char *end = made->texts;
    made->shown.size = sizeof made->shown;
    made->shown.verdict = told.verdict;
    made->shown.what = add_text(&end, told.what);
    made->shown.text = add_text(&end, told.text);
    made->shown.remedy = add_text(&end, told.remedy);
    made->next = NULL;
    *call->findings_end = made;
    call->findings_end = &made->next;
    return 0;
}

/* Ask the store, and wait for the answer: it is in call->reply. */
static int ask(struct call *call, simba_client *client, const simba_request *wanted, unsigned cap, simba_error *err)
{
    int rc = simba__client_forked(client, err);
    if (rc < 0)
        return rc;
    if ((client->backend->caps & cap) != cap)
        return simba__fail(err, SIMBA_ENOTSUP, "%s:// cannot do this", simba_url_scheme(client->url));
    call->client = client;
    call->err = err;
    simba__lock(client);
    simba__request *request = client->closing ? NULL : simba__request_new(wanted, client->timing.op_timeout_ns);
    if (request) {
        request->done = answered;
        request->of = call;
        client->calls++;
        simba__window_add(&client->window, request);
        while (!call->answered)
            simba__wait(client, call, SIMBA__NEVER);
        client->calls--; /* not earlier: a client that closes waits for us to leave */
        simba__wake(client, client);
        rc = call->reply.status;
    } else {
        rc = client->closing ? simba__fail(err, SIMBA_ECLOSED, "the client is closed")
                             : simba__fail(err, SIMBA_ENOMEM, "out of memory");
    }
    simba__unlock(client);
    return rc;
}

static int by_name(const void *a, const void *b)
{
    const struct row *const *left = a;
    const struct row *const *right = b;
    return strcmp((*left)->shown.mutex, (*right)->shown.mutex);
}

int simba_client_list(simba_client *client, const char *pattern, void (*row)(const simba_listing *listing, void *user),
                      void *user, simba_error *err)
{
    if (!client || !row)
        return simba__fail(err, SIMBA_EINVAL, "%s is NULL", client ? "row" : "client");
    struct call call = {.rows = NULL};
    int rc = ask(&call, client, &(simba_request){.op = SIMBA_OP_LIST, .mutex = pattern}, SIMBA_CAP_LIST, err);
    struct row **sorted = rc == 0 ? simba__calloc(call.count, sizeof(struct row *)) : NULL;
    if (sorted) {
        size_t count = 0;
        for (struct row *found = call.rows; found; found = found->next)
            sorted[count++] = found;
        qsort(sorted, count, sizeof *sorted, by_name);
        for (size_t i = 0; i < count; i++)
            row(&sorted[i]->shown, user);
        simba__free(sorted);
    } else if (rc == 0) {
        rc = simba__fail(err, SIMBA_ENOMEM, "out of memory");
    }
    while (call.rows) {
        struct row *next = call.rows->next;
        simba__free(call.rows);
        call.rows = next;
    }
    return rc;
}

int simba_client_force_release(simba_client *client, const char *mutex, simba_error *err)
{
    if (!client)
        return simba__fail(err, SIMBA_EINVAL, "client is NULL");
    int rc = simba__client_check_mutex(client, mutex, err);
    if (rc < 0)
        return rc;
    struct call call = {.rows = NULL};
    rc = ask(&call, client, &(simba_request){.op = SIMBA_OP_FORCE_RELEASE, .mutex = mutex}, SIMBA_CAP_LIST, err);
    if (rc == 0 && call.reply.outcome != SIMBA_MINE)
        rc = simba__fail(err, SIMBA_ENOTFOUND, "nobody owns %s", mutex);
    return rc;
}

int simba_client_forget(simba_client *client, const char *mutex, simba_error *err)
{
    if (!client)
        return simba__fail(err, SIMBA_EINVAL, "client is NULL");
    int rc = simba__client_check_mutex(client, mutex, err);
    if (rc < 0)
        return rc;
    struct call call = {.rows = NULL};
    rc = ask(&call, client, &(simba_request){.op = SIMBA_OP_FORGET, .mutex = mutex}, SIMBA_CAP_NOTE, err);
    if (rc < 0 || call.reply.outcome == SIMBA_MINE)
        return rc;
    const simba_owner *owner = &call.reply.owner;
    if (simba_owner_is_none(owner))
        return simba__fail(err, SIMBA_ENOTFOUND, "forget %s: the store does not know it", mutex);
    return simba__fail(err, SIMBA_ESTATE, "forget %s: owned by %s", mutex, owner->id);
}

int simba_client_give_back(simba_client *client, const char *mutex, const simba_grant *grant, simba_error *err)
{
    if (!client || !grant)
        return simba__fail(err, SIMBA_EINVAL, "%s is NULL", client ? "grant" : "client");
    int rc = simba__client_check_mutex(client, mutex, err);
    if (rc == 0)
        rc = simba__check_id(grant->id, err);
    if (rc < 0)
        return rc;
    /* Stores take a token of 0 for any grant of this id and nonce, which may be more than one grant. */
    if (grant->token == 0)
        return simba__fail(err, SIMBA_EINVAL, "the grant of %s has no token", mutex);
    if (client->timing.session)
        return simba__fail(err, SIMBA_ENOTSUP, "%s:// cannot do this: its leases end with their session",
                           simba_url_scheme(client->url));
    struct call call = {.rows = NULL};
    const simba_request wanted = {
        .op = SIMBA_OP_RELEASE, .mutex = mutex, .id = grant->id, .nonce = grant->nonce, .token = grant->token};
    rc = ask(&call, client, &wanted, 0, err);
    if (rc == 0 && call.reply.outcome != SIMBA_MINE)
        rc = simba__fail(err, SIMBA_ELOST, "give back %s: this grant had ended before", mutex);
    return rc;
}

int simba_client_examine(simba_client *client, void (*found)(const simba_finding *finding, void *user), void *user,
                         simba_error *err)
{
    if (!client || !found)
        return simba__fail(err, SIMBA_EINVAL, "%s is NULL", client ? "found" : "client");
    struct call call = {.rows = NULL};
    call.findings_end = &call.findings;
    const int rc = ask(&call, client, &(simba_request){.op = SIMBA_OP_EXAMINE}, SIMBA_CAP_EXAMINE, err);
    while (call.findings) {
        struct finding *next = call.findings->next;
        if (rc == 0)
            found(&call.findings->shown, user);
        simba__free(call.findings);
        call.findings = next;
    }
    return rc;
}

int simba_client_prepare(simba_client *client, simba_error *err)
{
    if (!client)
        return simba__fail(err, SIMBA_EINVAL, "client is NULL");
    if (!(client->backend->caps & SIMBA_CAP_PREPARE))
        return simba__client_forked(client, err);
    struct call call = {.rows = NULL};
    return ask(&call, client, &(simba_request){.op = SIMBA_OP_PREPARE}, SIMBA_CAP_PREPARE, err);
}
