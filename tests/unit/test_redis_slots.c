/* Which slot of a cluster a mutex is in. What a server says about it is compared in tests/backends/test_redis_cluster.c. */
#include <string.h>

#include "lib/cm.h"
#include "stores/redis/redis.h"

static void about_slots(void **state)
{
    static const struct {
        const char *mutex;
        unsigned slot;
    } cases[] = {
        {"123456789", 0x31C3},                                     /* the check value of this CRC */
        {"foo", 12182},        {"bar", 5061}, {"foo}:bar", 12182}, /* the tag ends at the first brace */
        {"foo}{bar}", 12182},  {"", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(simba__redis_slot(cases[i].mutex), cases[i].slot % REDIS_SLOTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(about_slots)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
