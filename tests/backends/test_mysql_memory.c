/* Memory runs out under the MySQL store. */
#include "backends/test_mysql.h"

#include "backends/sql_memory.h"

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(about_sweep, setup)};
    failing_install();
    return RUN_MYSQL_TESTS(tests);
}
