/* What a contender on ZooKeeper does next, event by event: without any server. The test answers the calls. The interleavings of several
 * clients are the simulator's; these are the ways that have a name. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/cm.h"

#include "stores/zookeeper/zookeeper.h"
#include "util/mem.h"

enum { NONCE = 7, SESSION = 77, OTHERS_SESSION = 78 };

static zk_store store;
static char root[] = "/simba";
static char told[256]; /* what the client was told since the test has looked */

/* --- the client --------------------------------------------------------------------------------------------- */

static void tell(const char *format, ...)
{
    const size_t length = strlen(told);
    va_list args;
    va_start(args, format);
    vsnprintf(told + length, sizeof told - length, format, args);
    va_end(args);
}

static void host_complete(simba_host *host, simba_request *request)
{
    static const char *const words[] = {
        [SIMBA_MINE] = "mine", [SIMBA_NOT_MINE] = "not mine", [SIMBA_REVOKED] = "revoked"};
    tell("%s %s;", words[request->reply.outcome], request->reply.owner.id);
}

static void host_fail(simba_host *host, simba_request *request, int code, const char *format, ...)
{
    tell("error %d;", code);
}

static void host_push_to(simba_host *host, const char *mutex, uint64_t nonce, const simba_push *push)
{
    assert_int_equal(nonce, NONCE);
    if (push->kind == SIMBA_PUSH_ACQUIRED)
        tell("acquired by %s;", push->owner.id);
    else
        tell("%s;", push->kind == SIMBA_PUSH_RELEASED ? "released" : "changed");
}

static simba_local host_now(simba_host *host)
{
    return (simba_local){1};
}

static int64_t host_epoch_us(simba_host *host)
{
    return 1;
}

static void host_timer_set(simba_host *host, simba_timer *timer, simba_local at)
{
    timer->index = 1;
}

static void host_wake(simba_host *host)
{
}

static void host_log(simba_host *host, simba_log_level level, const char *format, ...)
{
    tell("warning;");
}

static simba_host client = {.complete = host_complete,
                            .fail = host_fail,
                            .push_to = host_push_to,
                            .now = host_now,
                            .epoch_us = host_epoch_us,
                            .timer_set = host_timer_set,
                            .wake = host_wake,
                            .log = host_log};

static void connect_store(void)
{
    store.session.live.link = ZK_CONNECTED;
    simba__zk_begin_parked(&store);
}

static void lose_connection(void)
{
    store.session.live.link = ZK_APART;
    simba__zk_disconnected(&store);
}

static int setup(void **state)
{
    store = (zk_store){.host = &client, .options.root = root};
    store.session.store = &store;
    store.session.id = SESSION;
    store.session.link.state = SIMBA__LINK_UP;
    store.session.link.socket.interest = SIMBA_WRITABLE; /* nothing is sent */
    told[0] = '\0';
    connect_store();
    return 0;
}

static int teardown(void **state)
{
    simba__zk_ops_close(&store);
    simba__table_fini(&store.contenders);
    simba__table_fini(&store.watches);
    simba__buffer_free(&store.session.link.out);
    return 0;
}

/* Begin a case anew. */
static void anew(void)
{
    teardown(NULL);
    setup(NULL);
}

static zk_contender *contender(void)
{
    simba__node *node = simba__table_first(&store.contenders);
    assert_non_null(node);
    return SIMBA__OF_NODE(node, zk_contender, node);
}

static void assert_told(const char *expected)
{
    assert_string_equal(told, expected);
    told[0] = '\0';
}

static void submit(simba_op op, bool queue, uint64_t token)
{
    static simba_request requests[64];
    static size_t next;
    simba_request *request = &requests[next++ % 64];
    *request = (simba_request){.op = op, .queue = queue, .mutex = "m", .id = "me", .nonce = NONCE, .token = token};
    (op == SIMBA_OP_ACQUIRE ? simba__zk_acquire
     : op == SIMBA_OP_RENEW ? simba__zk_renew
                            : simba__zk_release)(&store, request);
}

/* --- the server --------------------------------------------------------------------------------------------- */

/* The calls in flight, in order; a child by its number. */
static void assert_calls(const char *expected)
{
    static const char *const words[] = {
        [ZK_DELETE] = "delete", [ZK_GET] = "get",        [ZK_CHILDREN] = "list",
        [ZK_SYNC] = "sync",     [ZK_CREATE2] = "create", [ZK_CREATE_CONTAINER] = "container"};
    char text[256] = "";
    for (simba__list_item *item = store.session.calls.first; item; item = item->next) {
        const zk_call *call = SIMBA__OF_ITEM(item, zk_call, item);
        const char *number = strstr(call->path, "-latch-0");
        const size_t length = strlen(text);
        assert_non_null(words[call->type]);
        snprintf(text + length, sizeof text - length, "%s%s%s", length ? ", " : "", words[call->type],
                 number ? number + strlen("-latch-000000000") - 1 : "");
        if (number)
            text[length + (length ? 2 : 0) + strlen(words[call->type])] = ' ';
    }
    assert_string_equal(text, expected);
}

/* The answer to the oldest call. */
static void answer(zk_result result)
{
    assert_non_null(store.session.calls.first);
    zk_call *call = SIMBA__OF_ITEM(store.session.calls.first, zk_call, item);
    simba__list_remove(&call->item);
    simba__zk_answer(call, &result);
}

static void answer_error(int error)
{
    answer((zk_result){.error = error});
}

static const char *own_name(const char *number)
{
    static char name[2 * ZK_NAME_MAX];
    snprintf(name, sizeof name, "%s%s", contender()->prefix, number);
    return name;
}

static void made_as(const char *number, int64_t czxid)
{
    char path[128];
    snprintf(path, sizeof path, "/simba/m/%s", own_name(number));
    answer((zk_result){.text = path, .stat = {.czxid = czxid, .ctime_ms = 1}});
}

static void made(unsigned number)
{
    char text[16];
    snprintf(text, sizeof text, "%010u", number);
    made_as(text, 10 + number);
}

/* The children from `first` to `last`, of which `own` is the contender's. */
static void listed(unsigned first, unsigned last, unsigned own)
{
    static char names[10][2 * ZK_NAME_MAX];
    const char *pointers[10];
    size_t count = 0;
    for (unsigned i = first; i <= last; i++) {
        snprintf(names[count], sizeof names[0], "%s%010u", i == own ? contender()->prefix : "_c_0-latch-", i);
        pointers[count] = names[count];
        count++;
    }
    answer((zk_result){.names = pointers, .count = count, .contenders = count});
}

/* A child of another client. */
static void answer_child(void)
{
    char id[] = "other";
    answer((zk_result){.text = id, .length = strlen(id), .stat = {.czxid = 1, .session = OTHERS_SESSION}});
}

static void answer_own(int64_t czxid)
{
    answer((zk_result){.stat = {.czxid = czxid, .session = SESSION}});
}

static void event(int kind, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "/simba/m/%s", name);
    simba__zk_fire(&store, &(zk_event){kind, path});
}

static void time_passes(void)
{
    store.timer.index = 0;
    simba__zk_begin_later(&store.timer, (simba_local){1});
}

/* --- cases -------------------------------------------------------------------------------------------------- */

static void lead(void)
{
    submit(SIMBA_OP_ACQUIRE, true, 0);
    assert_calls("create, list");
    made(1);
    listed(1, 2, 1);
    assert_told("mine me;");
    assert_calls("");
    assert_int_equal(contender()->place, ZK_LEADS);
}

static void wait_behind(void)
{
    submit(SIMBA_OP_ACQUIRE, true, 0);
    made(3);
    listed(2, 3, 3);
    assert_calls("get 2");
    answer_child();
    assert_told("not mine other;");
}

/* The first of all leads, watches its child after a while, and is removed when it is released. */
static void first_leads(void **state)
{
    lead();
    submit(SIMBA_OP_ACQUIRE, true, 0); /* the answer was lost */
    assert_told("mine me;");
    time_passes();
    assert_calls("get 1");
    answer_own(11);
    submit(SIMBA_OP_RELEASE, false, 12);
    assert_told("not mine ;"); /* of another grant */
    submit(SIMBA_OP_RELEASE, false, 11);
    assert_calls("delete 1");
    answer_error(ZK_OK);
    assert_told("mine ;");
    assert_int_equal(store.contenders.count, 0);
}

/* Whoever waits lists again when the one before has changed, and leads if nobody is before it any more. */
static void waiter_lists_again(void **state)
{
    wait_behind();
    event(ZK_EVENT_DELETED, "_c_0-latch-0000000002");
    assert_calls("list");
    listed(1, 3, 3);
    assert_calls("get 2");    /* nobody asks who leads */
    answer_error(ZK_NO_NODE); /* it has gone meanwhile */
    assert_calls("list");
    listed(3, 4, 3);
    assert_told("released;");
    assert_int_equal(contender()->place, ZK_LEADS);
}

/* A waiter behind others asks who leads when it has waited for a while; it need not know. */
static void behind_others(void **state)
{
    submit(SIMBA_OP_ACQUIRE, true, 0);
    made(3);
    listed(1, 3, 3);
    assert_calls("get 2");
    answer_child();
    assert_told("not mine ;"); /* that was not the leader */
    time_passes();
    assert_calls("list");
    listed(1, 3, 3);
    assert_calls("get 2, get 1");
    answer_error(ZK_OK);
    answer_child();
    assert_told("acquired by other;");
    time_passes();
    assert_calls("");
    submit(SIMBA_OP_ACQUIRE, true, 0);
    listed(1, 3, 3);
    answer_error(ZK_OK);
    time_passes();
    listed(1, 3, 3);
    answer_error(ZK_OK);
    answer_error(ZK_NO_NODE);
    assert_told("not mine ;");
    assert_int_equal(contender()->place, ZK_WAITS);
}

/* A mutex without a node gets one; the child that was not made is made then. */
static void node_is_made(void **state)
{
    submit(SIMBA_OP_ACQUIRE, true, 0);
    answer_error(ZK_NO_NODE);
    answer_error(ZK_NO_NODE);
    assert_calls("container, container, create, list");
    answer_error(ZK_NODE_EXISTS);
    answer_error(ZK_OK);
    made(1);
    listed(1, 1, 1);
    assert_told("mine me;");
}

/* Nobody knows what became of a creation whose connection broke: it is looked for, and only then made again. */
static void lost_creation(void **state)
{
    submit(SIMBA_OP_ACQUIRE, true, 0);
    lose_connection();
    assert_int_equal(contender()->place, ZK_UNSURE);
    connect_store();
    assert_calls("sync, list");
    answer_error(ZK_OK);
    listed(3, 3, 3);
    assert_calls("get 3");
    answer_own(33);
    assert_told("mine me;");
    assert_int_equal(contender()->czxid, 33);
    anew();
    submit(SIMBA_OP_ACQUIRE, true, 0);
    lose_connection();
    connect_store();
    answer_error(ZK_OK);
    listed(3, 3, 0);
    assert_calls("container, container, create, list");
}

/* The connection of a waiter breaks while it makes a child anew: it goes on although nobody asks. */
static void waiter_without_child(void **state)
{
    wait_behind();
    event(ZK_EVENT_CHANGED, "_c_0-latch-0000000002");
    listed(2, 2, 0);
    assert_calls("create, list");
    answer_error(ZK_NO_NODE);
    lose_connection();
    connect_store();
    assert_calls("sync, list");
}

/* It leaves although it does not know whether it has a child: what is found is removed. */
static void leaves_unsure(void **state)
{
    submit(SIMBA_OP_ACQUIRE, true, 0);
    lose_connection();
    submit(SIMBA_OP_RELEASE, false, 0);
    connect_store();
    assert_calls("sync, list");
    answer_error(ZK_OK);
    listed(2, 3, 3);
    assert_calls("delete 3");
    answer_error(ZK_OK);
    assert_told("error -4;not mine ;");
}

/* While a look is under way, a release waits for its answers. */
static void leaves_while_it_looks(void **state)
{
    submit(SIMBA_OP_ACQUIRE, true, 0);
    submit(SIMBA_OP_RELEASE, false, 0);
    assert_calls("create, list");
    made(4);
    listed(4, 4, 4);
    assert_calls("delete 4");
    lose_connection(); /* nobody knows whether it is removed */
    assert_int_equal(contender()->place, ZK_UNSURE);
    connect_store();
    assert_calls("sync, list");
    answer_error(ZK_OK);
    listed(5, 5, 0);
    assert_int_equal(store.contenders.count, 0);
}

/* A removal that fails is tried again, although nobody waits for it any more. */
static void leaves_in_the_end(void **state)
{
    lead();
    submit(SIMBA_OP_RELEASE, false, 0);
    answer_error(ZK_THROTTLED);
    assert_string_equal(told, "error -4;");
    time_passes();
    assert_calls("sync, list");
    answer_error(ZK_OK);
    listed(1, 2, 1);
    assert_calls("delete 1");
    answer_error(ZK_OK);
    assert_int_equal(store.contenders.count, 0);
}

/* Entering again while the removal is under way: another child is made behind it. */
static void enters_while_it_leaves(void **state)
{
    lead();
    submit(SIMBA_OP_RELEASE, false, 0);
    submit(SIMBA_OP_ACQUIRE, true, 0);
    assert_calls("delete 1");
    answer_error(ZK_OK);
    assert_calls("create, list");
}

/* Nobody is to wait: the child is removed again, and who leads is read in the same step. */
static void tries(void **state)
{
    submit(SIMBA_OP_ACQUIRE, false, 0);
    made(3);
    listed(1, 3, 3);
    assert_calls("get 1, delete 3");
    answer_child();
    answer_error(ZK_OK);
    assert_told("not mine other;");
    assert_int_equal(store.contenders.count, 0);
    submit(SIMBA_OP_ACQUIRE, false, 0);
    made(3);
    listed(1, 3, 3);
    answer_error(ZK_NO_NODE); /* the winner has gone */
    answer_error(ZK_OK);
    assert_calls("container, container, create, list");
}

/* Somebody removes the child of a leader, or of a waiter, who loses its place only. */
static void removed(void **state)
{
    lead();
    time_passes();
    answer_own(11);
    event(ZK_EVENT_DELETED, own_name("0000000001"));
    assert_told("changed;");
    assert_int_equal(contender()->place, ZK_REVOKED);
    submit(SIMBA_OP_RENEW, false, 11);
    assert_told("revoked ;");
    anew();
    lead();
    submit(SIMBA_OP_RENEW, false, 11);
    answer_error(ZK_NO_NODE);
    assert_told("revoked ;");
    anew();
    wait_behind();
    event(ZK_EVENT_DELETED, "_c_0-latch-0000000002");
    listed(4, 4, 0);
    assert_calls("create, list");
}

/* Somebody writes to the child of a leader: it is read and watched again. */
static void touched(void **state)
{
    lead();
    time_passes();
    answer_own(11);
    event(ZK_EVENT_CHANGED, own_name("0000000001"));
    assert_calls("get 1");
    answer_error(ZK_NO_MEMORY);
    time_passes();
    assert_calls("get 1");
    answer_own(11);
    assert_non_null(contender()->own.path);
    assert_told("");
}

/* A number that the server cannot count beyond does not say who was first. */
static void numbers_are_used_up(void **state)
{
    static const char *const bad[] = {"2147483647", "-214748364", "1", "00000000001"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        submit(SIMBA_OP_ACQUIRE, true, 0);
        made_as(bad[i], 12);
        const char *name = own_name(bad[i]);
        answer((zk_result){.names = &name, .count = 1, .contenders = 1});
        assert_int_equal(contender()->place, ZK_UNSURE);
        answer_error(ZK_OK);
        assert_int_equal(store.contenders.count, 0);
        assert_true(strncmp(told, "error", strlen("error")) == 0);
        told[0] = '\0';
    }
}

/* Somebody removes each child that is made. */
static void goes_each_time(void **state)
{
    submit(SIMBA_OP_ACQUIRE, true, 0);
    for (unsigned rounds = 0; rounds < 5; rounds++) {
        if (rounds > 0) {
            answer_error(ZK_NODE_EXISTS);
            answer_error(ZK_NODE_EXISTS);
        }
        made(2);
        listed(3, 3, 0);
    }
    assert_true(strncmp(told, "error", strlen("error")) == 0);
    assert_calls("");
}

/* An error that nobody expects ends the look; what is there stays. */
static void errors(void **state)
{
    submit(SIMBA_OP_ACQUIRE, true, 0);
    answer_error(ZK_UNIMPLEMENTED);
    answer_error(ZK_NO_NODE);
    assert_int_equal(store.contenders.count, 0);
    submit(SIMBA_OP_ACQUIRE, true, 0);
    made(1);
    answer_error(ZK_NO_AUTH);
    assert_int_equal(contender()->place, ZK_WAITS);
    submit(SIMBA_OP_ACQUIRE, true, 0);
    assert_calls("list");
}

/* Another child of this session is before it, and no contender has that. */
static void orphan(void **state)
{
    submit(SIMBA_OP_ACQUIRE, true, 0);
    made(3);
    listed(2, 3, 3);
    answer_own(12);
    assert_calls("delete 2");
    assert_told("warning;");
    answer_error(ZK_OK);
    assert_told("not mine _c_0-latch-0000000002;");
}

/* A child of the session before is nobody's. */
static void sessions_have_names_of_their_own(void **state)
{
    char before[ZK_PREFIX_MAX];
    lead();
    strcpy(before, contender()->prefix);
    lose_connection();
    store.session.over++;
    simba__zk_over(&store);
    assert_int_equal(store.contenders.count, 0);
    submit(SIMBA_OP_ACQUIRE, true, 0);
    assert_string_not_equal(contender()->prefix, before);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(first_leads),
        CASE(waiter_lists_again),
        CASE(behind_others),
        CASE(node_is_made),
        CASE(lost_creation),
        CASE(waiter_without_child),
        CASE(leaves_unsure),
        CASE(leaves_while_it_looks),
        CASE(leaves_in_the_end),
        CASE(enters_while_it_leaves),
        CASE(tries),
        CASE(removed),
        CASE(touched),
        CASE(numbers_are_used_up),
        CASE(goes_each_time),
        CASE(errors),
        CASE(orphan),
        CASE(sessions_have_names_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
