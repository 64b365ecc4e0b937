/* The intrusive list. */
#include "lib/cm.h"

#include "util/list.h"

struct thing {
    int number;
    simba__list_item link;
};

static void expect(const simba__list *list, const int *numbers, size_t count)
{
    const simba__list_item *link = list->first;
    const simba__list_item *previous = NULL;
    assert_int_equal(list->count, count);
    for (size_t i = 0; i < count; i++) {
        assert_non_null(link);
        assert_int_equal(SIMBA__OF_ITEM(link, struct thing, link)->number, numbers[i]);
        assert_ptr_equal(link->previous, previous);
        assert_ptr_equal(link->list, list);
        previous = link;
        link = link->next;
    }
    assert_null(link);
    assert_ptr_equal(list->last, previous);
}

static void append_and_remove(void **state)
{
    (void)state;
    simba__list list = {0};
    struct thing things[] = {{.number = 0}, {.number = 1}, {.number = 2}};
    for (int i = 0; i < 3; i++)
        simba__list_append(&list, &things[i].link);
    expect(&list, (const int[]){0, 1, 2}, 3);
    simba__list_append(&list, &things[0].link);
    expect(&list, (const int[]){1, 2, 0}, 3);
    simba__list_remove(&things[2].link);
    expect(&list, (const int[]){1, 0}, 2);
    simba__list_remove(&things[2].link); /* it is in none */
    simba__list_remove(&things[0].link);
    simba__list_remove(&things[1].link);
    expect(&list, NULL, 0);
    assert_null(things[1].link.list);
}

static void from_list_to_list(void **state)
{
    (void)state;
    simba__list from = {0};
    simba__list to = {0};
    struct thing thing = {.number = 7};
    simba__list_append(&from, &thing.link);
    simba__list_append(&to, &thing.link);
    expect(&from, NULL, 0);
    expect(&to, (const int[]){7}, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(append_and_remove),
        cmocka_unit_test(from_list_to_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
