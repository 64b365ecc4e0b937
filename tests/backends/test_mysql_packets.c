/* Clients that stop, or are cut off, between the packets of a transaction, and a crowd of clients. */
#include <simba.h>

#include "backends/test_mysql.h"

static int socket_of(const simba__sql_connection *session)
{
    const simba__my_conn *conn = session->conn;
    return (int)mysql_get_socket(conn->mysql);
}

/* Until somebody has locked the row. */
static void await_lock(void)
{
    MYSQL *other = connect_raw();
    for (bool is_locked = false; !is_locked;) {
        say_on(other, "start transaction");
        is_locked = strcmp(say_on(other, "select mutex from simba_mutex where mutex = 'orders' for update skip locked"),
                           "") == 0;
        say_on(other, "rollback");
    }
    mysql_close(other);
}

#include "backends/sql_packets.h"

int main(void)
{
    const struct CMUnitTest tests[] = {SQL_PACKETS_TESTS};
    return RUN_MYSQL_TESTS(tests);
}
