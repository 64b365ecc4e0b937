/* See notes.h. */
#include "runtime/notes.h"

#include "util/assert.h"
#include "util/error.h"
#include "util/sized.h"

/* Turn the store's answer into the program's. */
static int judge(simba__note_call *call)
{
    const simba_reply *reply = &call->request.reply;
    if (reply->status < 0)
        return reply->status;
    call->note.now_ms = reply->now_ms;
    if (!call->writer || reply->outcome == SIMBA_MINE)
        return 0;
    return simba__fail(&call->err, SIMBA_ELOST, "write note %s: %s", call->request.mutex,
                       reply->outcome == SIMBA_REVOKED ? "leadership was revoked before" : "leadership ended before");
}

static void answered(simba_request *request)
{
    simba__note_call *call = (simba__note_call *)(void *)request;
    simba_client *client = call->client;
    call->busy = false;
    call->rc = judge(call);
    client->calls--;
    if (call->writer) {
        call->writer->writes_note = false;
        call->writer->note_unsure = call->request.reply.status < 0;
    }
    simba__turn_signal(&client->turn, &client->turn.changed);
    if (call->done)
        call->done(call);
}

static int check(simba__note_call *call, simba_client *client)
{
    SIMBA__ASSERT(!call->busy);
    call->err = (simba_error){0};
    /* While the client closes, an on_released may still leave a note: closing waits for that. */
    if (client->closed)
        return simba__fail(&call->err, SIMBA_ECLOSED, "the client is closed");
    if (!(client->backend->caps & SIMBA_CAP_NOTE))
        return simba__fail(&call->err, SIMBA_ENOTSUP, "%s:// keeps no notes", simba_url_scheme(client->url));
    return 0;
}

static void begin(simba__note_call *call, simba_client *client, const simba_request *request)
{
    call->request = *request;
    call->request.done = answered;
    call->request.err = &call->err;
    call->request.ret_note = &call->note;
    call->request.deadline = simba__local_add(client->turn.now, client->timing.op_timeout_ns);
    call->client = client;
    call->note = (simba_note){.size = sizeof call->note};
    call->busy = true;
    client->calls++;
    simba__requests_submit(&client->requests, &call->request);
}

int simba__note_read(simba__note_call *call, simba_client *client, const char *mutex)
{
    const int rc = check(call, client);
    if (rc < 0)
        return rc;
    call->writer = NULL;
    begin(call, client, &(simba_request){.op = SIMBA_OP_READ_NOTE, .mutex = mutex, .id = ""});
    return 0;
}

int simba__note_write(simba__note_call *call, simba__member *member, const void *bytes, size_t length)
{
    simba_client *client = member->party.client;
    const simba__contention *machine = &member->machine;
    const char *mutex = member->party.topic->mutex;
    int rc = check(call, client);
    if (rc < 0)
        return rc;
    if (length > SIMBA_NOTE_MAX)
        return simba__fail(&call->err, SIMBA_EINVAL, "write note %s: it has %zu bytes, and may have %d", mutex, length,
                           SIMBA_NOTE_MAX);
    if (simba__contention_valid_until(machine).ns == 0)
        return simba__fail(&call->err, SIMBA_ESTATE, "write note %s: only its holder may, and this is not", mutex);
    if (member->writes_note)
        return simba__fail(&call->err, SIMBA_ESTATE, "write note %s: another write is under way", mutex);
    member->writes_note = true;
    call->writer = member;
    begin(call, client,
          &(simba_request){.op = SIMBA_OP_WRITE_NOTE,
                           .mutex = mutex,
                           .id = member->id,
                           .nonce = machine->nonce,
                           .token = machine->token,
                           .listens = machine->listens,
                           .note = length ? bytes : NULL,
                           .note_size = length,
                           .note_number = ++client->notes});
    return 0;
}

/* --- for those who wait ----------------------------------------------------------------------------- */

static void await(simba_client *client, const bool *busy)
{
    while (*busy)
        simba__turn_await(&client->turn, &client->turn.changed, SIMBA__NEVER, SIMBA_JOB_LONG);
}

static int hand_out(const simba__note_call *call, int rc, simba_error *err)
{
    if (rc < 0 && err)
        *err = call->err;
    return rc;
}

int simba__member_note_set(simba__member *member, simba__tenure tenure, const void *bytes, size_t length,
                           simba_error *err)
{
    simba_client *client = member->party.client;
    simba__note_call call = {0};
    if (!bytes && length > 0)
        return simba__fail(err, SIMBA_EINVAL, "bytes is NULL");
    int rc = simba__client_enter(client, err);
    if (rc < 0)
        return rc;
    await(client, &member->writes_note); /* of another thread */
    const bool another = member->machine.token != tenure.token || member->use != tenure.use;
    if (another && simba__contention_valid_until(&member->machine).ns != 0)
        rc = simba__fail(&call.err, SIMBA_ELOST, "write note %s: leadership ended before", member->party.topic->mutex);
    else
        rc = simba__note_write(&call, member, bytes, length);
    if (rc == 0) {
        await(client, &call.busy);
        rc = call.rc;
    }
    simba__leave(&client->turn);
    return hand_out(&call, rc, err);
}

static int read_note(simba_client *client, const char *mutex, simba_error *err, simba_note *ret_note)
{
    simba__note_call call = {0};
    if (!simba__sized_possible(ret_note))
        return simba__fail(err, SIMBA_EINVAL,
                           "simba_note.size is %zu, which cannot be: initialise with its _INIT macro", ret_note->size);
    int rc = simba__client_enter(client, err);
    if (rc < 0)
        return rc;
    rc = simba__note_read(&call, client, mutex);
    if (rc == 0) {
        await(client, &call.busy);
        rc = call.rc;
    }
    simba__leave(&client->turn);
    if (rc == 0)
        rc = simba__sized_tell(ret_note, &call.note);
    return hand_out(&call, rc, err);
}

int simba__member_note(simba__member *member, simba_error *err, simba_note *ret_note)
{
    return read_note(member->party.client, member->party.topic->mutex, err, ret_note);
}

int simba_client_note(simba_client *client, const char *mutex, simba_error *err, simba_note *ret_note)
{
    if (!client || !ret_note)
        return simba__fail(err, SIMBA_EINVAL, "%s is NULL", client ? "ret_note" : "client");
    const int rc = simba__client_check_mutex(client, mutex, err);
    return rc < 0 ? rc : read_note(client, mutex, err, ret_note);
}
