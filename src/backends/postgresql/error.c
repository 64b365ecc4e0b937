/* See error.h. The table of errors, by the beginning of their SQLSTATE, and what becomes of each:
 *
 *   what the server says                                  outcome        and then
 *   ----------------------------------------------------  -------------  ---------------------------------------------------
 *   08       connection exceptions; PgBouncer: no server  EUNAVAILABLE   connect again: 20 ms, doubling to 500 ms
 *   0A000    the result of the function has changed       EUNAVAILABLE   connect again, with a new look at the tables
 *   22 23    a value that does not fit                    ESTORE         for that mutex alone; the others go on
 *   25006    read only: a standby, or it was demoted      EUNAVAILABLE   connect again: another host may be the primary
 *   25P03    idle in a transaction for too long           EUNAVAILABLE   connect again; at once and unseen, if the
 *                                                                        connection had been idle
 *   28       not allowed to log in                        EPERM          connect again later: somebody may put it right.
 *                                                                        The text has no password
 *   3D000 3F000   no such database, no such schema        ESTORE         the same
 *   40001 40P01   serialization failure, deadlock         -              the whole statement again, then split
 *                                                         ETIMEDOUT      at the last try
 *   40003    whether it was completed is not known        EUNAVAILABLE
 *   42501    a right is missing                           EPERM
 *   42P01 42703 42883   no table, column or function      ESTORE         look for them anew at the next request; the text
 *                                                                        says `simba init`
 *   53300    too many connections                         EUNAVAILABLE   connect again
 *   53       disk full, out of memory, …                  EUNAVAILABLE
 *   54       a limit of the server                        ESTORE         each mutex by itself
 *   55P03    a lock that was not given in a second        -              asked again in a while, until the deadline
 *                                                         ETIMEDOUT      … has passed
 *   57014    cancelled, or by statement_timeout           EUNAVAILABLE
 *   57P03    starting up, shutting down, recovering       EUNAVAILABLE   connect again
 *   57P      shut down, crashed, idle for too long        EUNAVAILABLE   connect again; at once and unseen, if the
 *                                                                        connection had been idle
 *   58       an error of the server's system              EUNAVAILABLE
 *   XX001 XX002   corrupted data or index                 ECORRUPT
 *   anything else                                         ESTORE
 *
 * And what has no SQLSTATE:
 *
 *   libpq cannot connect: refused, no such host, TLS,     EUNAVAILABLE   connect again: 20 ms, doubling to 500 ms
 *     a standby where the primary was asked for
 *   libpq has lost the connection                         EUNAVAILABLE   connect again; at once and unseen, if the
 *                                                                        connection had been idle
 *   a certificate that is not trusted, or no file of one  EPERM          connect again later
 *   a row that is locked by somebody else                 -              the others go on; asked again in a while
 *   no answer by the deadline of a request                ETIMEDOUT      what becomes of it is not known; when the last
 *                                                                        request of a batch has run out of time, its
 *                                                                        connection is cut
 *   a row older than one seen before (a fail-over)        -              new tokens are above the one that was seen, and
 *                                                                        who holds the mutex here is asked to renew
 *   the server's clock steps back                         -              leases last longer by as much; nobody gets any
 *                                                                        that has not ended
 */
#include "backends/postgresql/error.h"

#include <ctype.h>
#include <string.h>

/* The longest beginning that fits counts, so it comes first. */
static const struct {
    const char *begins;
    int code;
    simba__sql_remedy remedy;
} known[] = {
    {"08", SIMBA_EUNAVAILABLE, SIMBA__SQL_RECONNECT},
    {"0A000", SIMBA_EUNAVAILABLE, SIMBA__SQL_RECONNECT},
    {"22", SIMBA_ESTORE, SIMBA__SQL_SPLIT},
    {"23", SIMBA_ESTORE, SIMBA__SQL_SPLIT},
    {"25006", SIMBA_EUNAVAILABLE, SIMBA__SQL_RECONNECT},
    {"25P03", SIMBA_EUNAVAILABLE, SIMBA__SQL_LOST},
    {"28", SIMBA_EPERM, SIMBA__SQL_RECONNECT},
    {"3D000", SIMBA_ESTORE, SIMBA__SQL_RECONNECT},
    {"3F000", SIMBA_ESTORE, SIMBA__SQL_RECONNECT},
    {"40001", SIMBA_ETIMEDOUT, SIMBA__SQL_RETRY},
    {"40P01", SIMBA_ETIMEDOUT, SIMBA__SQL_RETRY},
    {"40003", SIMBA_EUNAVAILABLE, SIMBA__SQL_TELL},
    {"42501", SIMBA_EPERM, SIMBA__SQL_TELL},
    {"42P01", SIMBA_ESTORE, SIMBA__SQL_RECONNECT},
    {"42703", SIMBA_ESTORE, SIMBA__SQL_RECONNECT},
    {"42883", SIMBA_ESTORE, SIMBA__SQL_RECONNECT},
    {"53300", SIMBA_EUNAVAILABLE, SIMBA__SQL_RECONNECT},
    {"53", SIMBA_EUNAVAILABLE, SIMBA__SQL_TELL},
    {"54", SIMBA_ESTORE, SIMBA__SQL_SPLIT},
    {"55P03", SIMBA_ETIMEDOUT, SIMBA__SQL_LOCKED},
    {"57014", SIMBA_EUNAVAILABLE, SIMBA__SQL_TELL},
    {"57P03", SIMBA_EUNAVAILABLE, SIMBA__SQL_RECONNECT},
    {"57P", SIMBA_EUNAVAILABLE, SIMBA__SQL_LOST},
    {"58", SIMBA_EUNAVAILABLE, SIMBA__SQL_TELL},
    {"XX001", SIMBA_ECORRUPT, SIMBA__SQL_TELL},
    {"XX002", SIMBA_ECORRUPT, SIMBA__SQL_TELL},
};

int simba__pg_error_code(const char *sqlstate, simba__sql_remedy *ret_remedy)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp(sqlstate, known[i].begins, strlen(known[i].begins)) == 0) {
            *ret_remedy = known[i].remedy;
            return known[i].code;
        }
    *ret_remedy = SIMBA__SQL_TELL;
    return SIMBA_ESTORE;
}

/* Texts of the server and of libpq name users, databases and hosts, never passwords. */
static int fail(const simba__pg_options *options, const char *sqlstate, const char *text, simba__sql_failure *why)
{
    simba__sql_remedy remedy;
    const int code = simba__pg_error_code(sqlstate, &remedy);
    const bool is_missing = strncmp(sqlstate, "42P01", 5) == 0 || strncmp(sqlstate, "42883", 5) == 0;
    return simba__sql_fail(why, remedy, code, "postgresql %s: %.*s (%.5s)%s", options->where, (int)strcspn(text, "\n"),
                           text, sqlstate, is_missing ? "; run `simba init`" : "");
}

/* Where libpq is told to be verbose, an error of the server reads "FATAL:  28P01: text". NULL: this is none. */
static const char *find_sqlstate(const char *text)
{
    for (const char *at = strstr(text, ":  "); at; at = strstr(at + 1, ":  ")) {
        size_t n = 0;
        while (n < 5 && (isdigit((unsigned char)at[3 + n]) || isupper((unsigned char)at[3 + n])))
            n++;
        if (n == 5 && strncmp(at + 8, ": ", 2) == 0)
            return at + 3;
    }
    return NULL;
}

/* By what OpenSSL and libpq say; the certificate of a server whose name resolves to another place by mistake, too. */
static bool is_distrust(const char *text)
{
    return strstr(text, "certificate") != NULL;
}

int simba__pg_fail_connection(const simba__pg_options *options, PGconn *pg, simba__sql_failure *why)
{
    const char *text = PQerrorMessage(pg);
    const char *sqlstate = find_sqlstate(text);
    if (sqlstate)
        return fail(options, sqlstate, sqlstate + 7, why);
    const int code = is_distrust(text) ? SIMBA_EPERM : SIMBA_EUNAVAILABLE;
    return simba__sql_fail(why, SIMBA__SQL_LOST, code, "postgresql %s: %.*s", options->where, (int)strcspn(text, "\n"),
                           text[0] ? text : "the connection is lost");
}

int simba__pg_fail_result(const simba__pg_options *options, PGconn *pg, const PGresult *result, simba__sql_failure *why)
{
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    if (sqlstate)
        return fail(options, sqlstate, text ? text : "", why);
    if (PQstatus(pg) == CONNECTION_BAD)
        return simba__pg_fail_connection(options, pg, why);
    return simba__sql_fail(why, SIMBA__SQL_RECONNECT, SIMBA_ESTORE, "postgresql %s: %s", options->where,
                           result ? PQresultErrorMessage(result) : PQerrorMessage(pg));
}

int simba__pg_out_of_memory(simba__sql_failure *why)
{
    return simba__sql_fail(why, SIMBA__SQL_TELL, SIMBA_ENOMEM, "postgresql: out of memory");
}
