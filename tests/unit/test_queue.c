/* Requests that wait inside a store: in order of arrival, and any of them can leave. */
#include "backends/queue.h"
#include "lib/cm.h"

enum { COUNT = 5, CROWD = 200000 };

static simba_request requests[CROWD];

static void fill(simba__queue *queue, size_t count)
{
    simba__queue_init(queue);
    for (size_t i = 0; i < count; i++)
        simba__queue_append(queue, &requests[i]);
}

static void assert_left(simba__queue *queue, const char *left)
{
    for (; *left; left++)
        assert_ptr_equal(simba__queue_take(queue), &requests[*left - '0']);
    assert_null(simba__queue_take(queue));
}

static void they_come_in_order(void **state)
{
    (void)state;
    simba__queue queue;
    fill(&queue, COUNT);
    assert_left(&queue, "01234");
}

static void any_of_them_can_leave(void **state)
{
    (void)state;
    simba__queue queue;
    fill(&queue, COUNT);
    simba__queue_remove(&queue, &requests[2]);
    assert_false(simba__queue_has(&requests[2]));
    simba__queue_remove(&queue, &requests[0]);
    simba__queue_remove(&queue, &requests[4]);
    assert_true(simba__queue_has(&requests[3]));
    simba__queue_append(&queue, &requests[0]);
    assert_left(&queue, "130");
}

static void the_only_one_can_leave(void **state)
{
    (void)state;
    simba__queue queue;
    fill(&queue, 1);
    simba__queue_remove(&queue, &requests[0]);
    simba__queue_append(&queue, &requests[1]);
    assert_left(&queue, "1");
}

static void all_can_be_put_back(void **state)
{
    (void)state;
    simba__queue queue;
    fill(&queue, COUNT);
    for (simba_request *r = simba__queue_take_all(&queue), *next; r; r = next) {
        next = r->next;
        simba__queue_append(&queue, r);
    }
    simba__queue_remove(&queue, &requests[1]);
    assert_left(&queue, "0234");
}

/* The last first: were they looked for from the beginning, this would take minutes. */
static void a_crowd_leaves_from_the_end(void **state)
{
    (void)state;
    simba__queue queue;
    fill(&queue, CROWD);
    for (size_t i = CROWD; i > 0; i--)
        simba__queue_remove(&queue, &requests[i - 1]);
    assert_left(&queue, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_come_in_order),          cmocka_unit_test(any_of_them_can_leave),
        cmocka_unit_test(the_only_one_can_leave),      cmocka_unit_test(all_can_be_put_back),
        cmocka_unit_test(a_crowd_leaves_from_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
