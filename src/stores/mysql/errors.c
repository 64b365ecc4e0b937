/* What errors mean: the outcome of a request, and what the store does about it.
 *
 *   what the server or the library says                   outcome        and then
 *   ----------------------------------------------------  -------------  ---------------------------------------------------
 *   2002 2003 2005 2055 cannot connect, unknown host      EUNAVAILABLE   connect again: 20 ms, doubling to 500 ms
 *   2006 2013 1053 1927 4031 … gone, killed, shut down    EUNAVAILABLE   connect again; at once and unseen, if the
 *                                                                        connection had been idle
 *   1040 1203 1226 too many connections                   EUNAVAILABLE   connect again
 *   1047 a Galera node that is not ready                  EUNAVAILABLE   connect again: the name may lead elsewhere
 *   1290 1836 1792 read-only: a replica, or was demoted   EUNAVAILABLE   the same
 *   1205 3572 1213 1020 a lock not given, deadlock        -              roll back; in some milliseconds again, until the
 *                                                                        deadline of the request (ETIMEDOUT)
 *   1153 2020 packet larger than the server takes         ESTORE         for one mutex alone; the others go on. The
 *                                                                        connection is over
 *   1264 1366 1406 … a value that does not fit            ESTORE         for one mutex alone; the others go on
 *   1021 1030 1114 disk full, table full                  EUNAVAILABLE
 *   1317 1969 3024 query interrupted                      EUNAVAILABLE
 *   1044 1045 1129 1130 1142 1143 1227 1251 1698 1820     EPERM          connect again later: somebody may put it right.
 *     1862 not allowed                                                   The text has no password
 *   2026 2059 5010 TLS, authentication plugins            EPERM          the same
 *   2026 the connection was lost in the TLS handshake     EUNAVAILABLE   connect again
 *   the URL asks for TLS, and the server has none         ESTORE         connect again later
 *   1049 no such database                                 ESTORE         the same
 *   1146 no such table                                    ESTORE         look for it anew at the next request; the text
 *                                                                        says `simba init`
 *   1054 1615 columns or statements have changed          EUNAVAILABLE   connect again, with a new look at the table
 *   2014 2027 an answer to something else, or to nothing  EUNAVAILABLE   connect again
 *   anything else                                         ESTORE
 *
 * And what is no error number at all:
 *
 *   no answer by the deadline of a request                ETIMEDOUT      what becomes of it is not known; when the last
 *                                                                        request of a batch has run out of time, its
 *                                                                        connection is given up
 *   an id or a name that is longer than its column        EINVAL         is not sent
 *   a name that the column cannot tell from another       ECORRUPT       for that mutex alone
 *   the version of a row has reached the end of its type  ECORRUPT       the same
 *   a row older than one seen before (a failover)         -              new tokens are above the one that was seen, and
 *                                                                        who holds the mutex here is asked to renew
 *   the server's clock steps back                         -              leases last longer by as much; nobody gets any
 *                                                                        that has not ended
 */
#include <errmsg.h>
#include <errno.h>
#include <mysqld_error.h>
#include <stdlib.h>
#include <string.h>

#include "stores/mysql/mysql.h"

/* Error numbers that not all servers have, and so not all headers. */
enum {
    WSREP_NOT_READY = 1047,
    CONNECTION_KILLED = 1927,
    STATEMENT_TIMEOUT = 1969,
    QUERY_TIMEOUT = 3024,
    LOCK_NOWAIT = 3572,
    DISCONNECTED_IDLE = 4031,
};

/* By outcome and effect; 0 ends the numbers. */
static const struct {
    int code;
    simba__sql_effect effect;
    unsigned numbers[26];
} known[] = {
    {SIMBA_EUNAVAILABLE, SIMBA__SQL_AWAY, {CR_CONNECTION_ERROR,      CR_CONN_HOST_ERROR,
                                           CR_UNKNOWN_HOST,          CR_SERVER_LOST_EXTENDED,
                                           CR_COMMANDS_OUT_OF_SYNC,  CR_MALFORMED_PACKET,
                                           ER_CON_COUNT_ERROR,       ER_OUT_OF_RESOURCES,
                                           ER_HANDSHAKE_ERROR,       WSREP_NOT_READY,
                                           ER_BAD_FIELD_ERROR,       ER_NORMAL_SHUTDOWN,
                                           ER_ABORTING_CONNECTION,   ER_NET_READ_ERROR,
                                           ER_NET_READ_INTERRUPTED,  ER_NET_ERROR_ON_WRITE,
                                           ER_NET_WRITE_INTERRUPTED, ER_TOO_MANY_USER_CONNECTIONS,
                                           ER_USER_LIMIT_REACHED,    ER_OPTION_PREVENTS_STATEMENT,
                                           ER_NEED_REPREPARE,        ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION,
                                           ER_READ_ONLY_MODE}},
    {SIMBA_EUNAVAILABLE,
     SIMBA__SQL_LOST,
     {CR_SERVER_GONE_ERROR, CR_SERVER_LOST, ER_SERVER_SHUTDOWN, CONNECTION_KILLED, DISCONNECTED_IDLE}},
    {SIMBA_ESTORE, SIMBA__SQL_ALONE, {CR_NET_PACKET_TOO_LARGE, ER_NET_PACKET_TOO_LARGE}},
    {SIMBA_ENOMEM, SIMBA__SQL_AWAY, {CR_OUT_OF_MEMORY}},
    {SIMBA_EPERM,
     SIMBA__SQL_AWAY,
     {CR_SSL_CONNECTION_ERROR, CR_PLUGIN_NOT_ALLOWED, CR_AUTH_PLUGIN_CANNOT_LOAD, ER_DBACCESS_DENIED_ERROR,
      ER_ACCESS_DENIED_ERROR, ER_HOST_IS_BLOCKED, ER_HOST_NOT_PRIVILEGED, ER_NOT_SUPPORTED_AUTH_MODE,
      ER_ACCESS_DENIED_NO_PASSWORD_ERROR, ER_MUST_CHANGE_PASSWORD, ER_MUST_CHANGE_PASSWORD_LOGIN}},
    {SIMBA_EUNAVAILABLE,
     SIMBA__SQL_TELL,
     {ER_DISK_FULL, ER_GET_ERRNO, ER_RECORD_FILE_FULL, ER_QUERY_INTERRUPTED, STATEMENT_TIMEOUT, QUERY_TIMEOUT}},
    {SIMBA_ETIMEDOUT, SIMBA__SQL_AGAIN, {ER_CHECKREAD, ER_LOCK_DEADLOCK, ER_LOCK_WAIT_TIMEOUT, LOCK_NOWAIT}},
    {SIMBA_ESTORE, SIMBA__SQL_AWAY, {ER_BAD_DB_ERROR, ER_NO_SUCH_TABLE}},
    {SIMBA_EPERM,
     SIMBA__SQL_TELL,
     {ER_TABLEACCESS_DENIED_ERROR, ER_COLUMNACCESS_DENIED_ERROR, ER_SPECIFIC_ACCESS_DENIED_ERROR}},
    {SIMBA_ESTORE, SIMBA__SQL_ALONE, {ER_WARN_DATA_OUT_OF_RANGE, ER_TRUNCATED_WRONG_VALUE_FOR_FIELD, ER_DATA_TOO_LONG}},
};

int simba__my_error_code(unsigned number, simba__sql_effect *ret_effect)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (const unsigned *each = known[i].numbers; *each != 0; each++)
            if (*each == number) {
                *ret_effect = known[i].effect;
                return known[i].code;
            }
    *ret_effect = SIMBA__SQL_TELL;
    return SIMBA_ESTORE;
}

/* The library has one number for everything that ends a TLS handshake. A connection that was lost on the way is not
 * a matter of permission, and passes; only the text tells, by OpenSSL's words or by the system's number at its end. */
static bool is_lost_handshake(unsigned number, const char *text)
{
    const char *open = strrchr(text, '(');
    const long cause = open ? strtol(open + 1, NULL, 10) : 0;
    return number == CR_SSL_CONNECTION_ERROR && (strstr(text, "unexpected eof") || cause == ETIMEDOUT ||
                                                 cause == ECONNRESET || cause == ECONNABORTED || cause == EPIPE);
}

/* Texts of the server and of the library name users and hosts, never passwords. */
int simba__my_fail(const simba__my_conn *conn, unsigned number, const char *text, simba__sql_failure *why)
{
    simba__sql_effect effect;
    int code = simba__my_error_code(number, &effect);
    const int fd = conn->mysql ? (int)mysql_get_socket(conn->mysql) : -1;
    if (effect == SIMBA__SQL_ALONE && fd < 0)
        effect = SIMBA__SQL_LOST; /* the packet was too large, and the connection is over */
    if (is_lost_handshake(number, text))
        code = SIMBA_EUNAVAILABLE;
    if (number == ER_NO_SUCH_TABLE)
        return simba__sql_fail(why, effect, code, "mysql %s: the table %s is gone; run `simba init`",
                               conn->options->where, conn->options->table);
    /* The library's text has the number of the wrong error in it. */
    if (number == CR_CONNECTION_ERROR || number == CR_CONN_HOST_ERROR)
        text = "there is no server, or it cannot be reached";
    return simba__sql_fail(why, effect, code, "mysql %s: %s (%u)%s", conn->options->where, text, number,
                           number == ER_BAD_DB_ERROR ? "; create it, or correct the URL" : "");
}

int simba__my_fail_latest(const simba__my_conn *conn, simba__sql_failure *why)
{
    return simba__my_fail(conn, mysql_errno(conn->mysql), mysql_error(conn->mysql), why);
}

int simba__my_fail_broken(const simba__my_conn *conn, const char *text, simba__sql_failure *why)
{
    return simba__my_fail(conn, CR_MALFORMED_PACKET, text, why);
}
