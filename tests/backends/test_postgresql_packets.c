/* Clients that stop, or are cut off, between the packets of a transaction, and a crowd of clients. */
#include <simba.h>

#include "backends/test_postgresql.h"

static int socket_of(const simba__sql_connection *session)
{
    const simba__pg_conn *conn = session->conn;
    return PQsocket(conn->pg);
}

/* Until somebody has locked the row. */
static void await_lock(void)
{
    while (strcmp(say("select mutex from simba_mutex where mutex = 'orders' for update skip locked"), "") != 0)
        ;
}

#include "backends/sql_packets.h"

int main(void)
{
    const struct CMUnitTest tests[] = {SQL_PACKETS_TESTS};
    return RUN_POSTGRESQL_TESTS(tests);
}
