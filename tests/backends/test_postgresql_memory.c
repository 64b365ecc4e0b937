/* Memory runs out under the PostgreSQL store. */
#include "backends/test_postgresql.h"

#include "backends/sql_memory.h"

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(about_sweep, setup)};
    failing_install();
    return RUN_POSTGRESQL_TESTS(tests);
}
