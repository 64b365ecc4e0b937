/* See scenario.h. */
#include "fuzz/scenario.h"

#include "fuzz/wires.h"

const char *const scenario_mutexes[SCENARIO_MUTEXES] = {"m", "a}:b", "{n}"};
const char *const scenario_ids[SCENARIO_IDS] = {"me", "you", "x}:y"};

bool scenario_begin(scenario *s, const simba_backend *backend, const char *url)
{
    simba_error err;
    *s = (scenario){.host = malloc(sizeof *s->host)};
    FUZZ_CHECK(s->host);
    if (testhost_open_still(s->host, backend, url, &err) == 0)
        return true;
    free(s->host);
    return false;
}

void scenario_end(scenario *s)
{
    for (size_t i = 0; i < SCENARIO_MUTEXES; i++)
        if (s->is_watched[i])
            testhost_unwatch(s->host, &s->watches[i]);
    scenario_settle(s);
    testhost_close(s->host);
    for (size_t i = 0; i < SCENARIO_REQUESTS; i++)
        FUZZ_CHECK(!s->asked[i].sent);
    free(s->host);
}

void scenario_settle(scenario *s)
{
    testhost_end_section(s->host);
    testhost_settle(s->host);
}

/* Unless too much is asked for already. */
static void ask(scenario *s, const simba_request *request)
{
    testhost_request *r = s->asked;
    while (r < s->asked + SCENARIO_REQUESTS && r->sent)
        r++;
    if (r == s->asked + SCENARIO_REQUESTS)
        return;
    *r = testhost_request_of(s->host, request->op, request->mutex, request->id, request->nonce, request->token);
    r->request.queue = request->queue;
    r->request.note = request->note;
    r->request.note_size = request->note_size;
    r->request.note_number = request->note_number;
    testhost_submit(s->host, r);
}

void scenario_request(scenario *s, fuzz_input *in)
{
    static const simba_op ops[] = {SIMBA_OP_ACQUIRE, SIMBA_OP_RENEW,         SIMBA_OP_RELEASE, SIMBA_OP_READ,
                                   SIMBA_OP_LIST,    SIMBA_OP_FORCE_RELEASE, SIMBA_OP_EXAMINE, SIMBA_OP_ACQUIRE};
    simba_request request = {.op = ops[fuzz_below(in, 8)], .id = scenario_ids[fuzz_below(in, SCENARIO_IDS)]};
    request.queue = fuzz_below(in, 2);
    request.nonce = fuzz_below(in, 4);
    request.token = request.op == SIMBA_OP_ACQUIRE ? 0 : fuzz_byte(in);
    request.mutex = scenario_mutexes[fuzz_below(in, SCENARIO_MUTEXES)];
    if (request.op == SIMBA_OP_EXAMINE && !(s->host->backend->caps & SIMBA_CAP_EXAMINE))
        request.op = SIMBA_OP_LIST;
    if (request.op == SIMBA_OP_LIST || request.op == SIMBA_OP_EXAMINE)
        request.mutex = NULL;
    ask(s, &request);
}

void scenario_note(scenario *s, fuzz_input *in)
{
    static const simba_op ops[] = {SIMBA_OP_WRITE_NOTE, SIMBA_OP_READ_NOTE, SIMBA_OP_FORGET};
    simba_request request = {.op = ops[fuzz_below(in, 3)],
                             .mutex = scenario_mutexes[fuzz_below(in, SCENARIO_MUTEXES)],
                             .id = scenario_ids[fuzz_below(in, SCENARIO_IDS)]};
    if (request.op == SIMBA_OP_WRITE_NOTE) {
        request.note = "page 1";
        request.note_size = fuzz_below(in, 7);
        request.note_number = 1;
        request.token = fuzz_below(in, 8);
        request.nonce = fuzz_below(in, 4);
    }
    ask(s, &request);
}

void scenario_watch(scenario *s, fuzz_input *in)
{
    testhost *h = s->host;
    const unsigned i = fuzz_below(in, SCENARIO_MUTEXES);
    s->watches[i].mutex = scenario_mutexes[i];
    if (!s->is_watched[i])
        s->watches[i].observed = fuzz_below(in, 2);
    if (s->is_watched[i])
        testhost_unwatch(h, &s->watches[i]);
    s->is_watched[i] = !s->is_watched[i] && testhost_watch(h, &s->watches[i]) == 0;
}

void scenario_step(scenario *s, fuzz_input *in, const scenario_server *server)
{
    switch (fuzz_below(in, 12)) {
    case 0:
    case 1:
        scenario_request(s, in);
        break;
    case 2:
        scenario_note(s, in);
        break;
    case 3:
        scenario_watch(s, in);
        break;
    case 4:
        if (fuzz_wire_count > 0)
            server->interrupt(in, fuzz_below(in, (unsigned)fuzz_wire_count));
        break;
    case 5:
        testhost_advance(s->host, (int64_t)fuzz_byte(in) * fuzz_byte(in) / 4);
        break;
    default:
        if (server->answer)
            server->answer(in);
        else
            scenario_request(s, in);
    }
}
