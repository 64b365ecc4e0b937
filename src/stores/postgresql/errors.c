/* What errors mean: the outcome of a request, and what the store does about it. */
#include <ctype.h>
#include <string.h>

#include "stores/postgresql/postgresql.h"

/* AWAY: connect again, after 20 ms, then twice as long each time up to 500 ms. LOST: the same; at once and unseen if nothing was
 * written. ALONE: for one mutex; the others go on. AGAIN: in some milliseconds, until the deadline of the request. TELL: nothing. */
static const struct {
    const char *begins; /* the SQLSTATE. The first one that fits counts */
    int code;
    simba__sql_effect effect;
} known[] = {
    {"08", SIMBA_EUNAVAILABLE, SIMBA__SQL_AWAY},    /* connection exceptions; PgBouncer: no server, too many clients */
    {"0A000", SIMBA_EUNAVAILABLE, SIMBA__SQL_AWAY}, /* a result has changed */
    {"22", SIMBA_ESTORE, SIMBA__SQL_ALONE},         /* a value that does not fit */
    {"23", SIMBA_ESTORE, SIMBA__SQL_ALONE},         /* a constraint that somebody has added */
    {"25006", SIMBA_EUNAVAILABLE, SIMBA__SQL_AWAY}, /* read only: demoted; another host may be the primary */
    {"25P03", SIMBA_EUNAVAILABLE, SIMBA__SQL_LOST}, /* idle in a transaction for too long */
    {"28", SIMBA_EPERM, SIMBA__SQL_AWAY},           /* may not log in; somebody may put it right */
    {"3D000", SIMBA_ESTORE, SIMBA__SQL_AWAY},       /* no such database */
    {"3F000", SIMBA_ESTORE, SIMBA__SQL_AWAY},       /* no such schema */
    {"40001", SIMBA_ETIMEDOUT, SIMBA__SQL_AGAIN},   /* serialization failure */
    {"40P01", SIMBA_ETIMEDOUT, SIMBA__SQL_AGAIN},   /* deadlock */
    {"40003", SIMBA_EUNAVAILABLE, SIMBA__SQL_TELL}, /* whether it was completed is not known */
    {"42501", SIMBA_EPERM, SIMBA__SQL_TELL},        /* a right is missing */
    {"42P01", SIMBA_ESTORE, SIMBA__SQL_AWAY},       /* no table or column: the text says `simba init`, */
    {"42703", SIMBA_ESTORE, SIMBA__SQL_AWAY},       /* and the next request looks for it anew */
    {"53300", SIMBA_EUNAVAILABLE, SIMBA__SQL_AWAY}, /* too many connections */
    {"53", SIMBA_EUNAVAILABLE, SIMBA__SQL_ALONE},   /* disk full, out of memory: there may be room for others */
    {"54", SIMBA_ESTORE, SIMBA__SQL_ALONE},         /* a limit of the server */
    {"55P03", SIMBA_ETIMEDOUT, SIMBA__SQL_AGAIN},   /* a lock that was not given within a second */
    {"57014", SIMBA_EUNAVAILABLE, SIMBA__SQL_TELL}, /* cancelled, also by statement_timeout */
    {"57P03", SIMBA_EUNAVAILABLE, SIMBA__SQL_AWAY}, /* starting up, shutting down, recovering */
    {"57P", SIMBA_EUNAVAILABLE, SIMBA__SQL_LOST},   /* shut down, terminated, crashed, idle for too long */
    {"58", SIMBA_EUNAVAILABLE, SIMBA__SQL_ALONE},   /* an error of the server's system: a page cannot be read */
    {"XX001", SIMBA_ECORRUPT, SIMBA__SQL_ALONE},    /* corrupted data: others may be sound */
    {"XX002", SIMBA_ECORRUPT, SIMBA__SQL_ALONE},    /* corrupted index */
    {"", SIMBA_ESTORE, SIMBA__SQL_TELL},            /* anything else */
};
/* And what has no SQLSTATE:
 *   libpq cannot connect (refused, no such host, a standby), or has lost the connection: EUNAVAILABLE, LOST
 *   the URL wants TLS, and the server does not offer it: ESTORE, LOST
 *   the server wants a password, and there is none: EPERM, LOST
 *   a certificate that is not trusted, or whose file is missing: EPERM, LOST
 *   a commit whose wait for a synchronous standby was cancelled, which the server answers with a warning only: EUNAVAILABLE, TELL
 *   a row that somebody else has locked: asked again in a while; the others go on
 *   no answer by the deadline of a request: ETIMEDOUT, and what becomes of it is not known. When the last request of a batch has
 *     run out of time, its connection is given up
 *   a row older than one seen before (a fail-over): new tokens are above the one that was seen, and who holds the mutex here is
 *     asked to renew */

int simba__pg_error_code(const char *sqlstate, simba__sql_effect *ret_effect)
{
    size_t i = 0;
    while (strncmp(sqlstate, known[i].begins, strlen(known[i].begins)) != 0)
        i++;
    *ret_effect = known[i].effect;
    return known[i].code;
}

/* Texts of the server and of libpq name users, databases and hosts, never passwords. */
static int fail(const simba__pg_options *options, const char *sqlstate, const char *text, simba__sql_failure *why)
{
    simba__sql_effect effect;
    const int code = simba__pg_error_code(sqlstate, &effect);
    const bool is_missing = strncmp(sqlstate, "42P01", 5) == 0 || strncmp(sqlstate, "42703", 5) == 0;
    const bool has_no_database = strncmp(sqlstate, "3D000", 5) == 0;
    return simba__sql_fail(why, effect, code, "postgresql %s: %.*s (%.5s)%s", options->where, (int)strcspn(text, "\n"),
                           text, sqlstate,
                           is_missing        ? "; run `simba init`"
                           : has_no_database ? "; create it, or correct the URL"
                                             : "");
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

/* What libpq and OpenSSL say about a connection that no second attempt will make. */
static const struct {
    const char *words;
    int code;
    const char *said; /* instead; NULL: the text says it */
} hopeless[] = {
    {"but SSL was required", SIMBA_ESTORE,
     "the server does not speak TLS; give it TLS, or add ?sslmode=disable to the URL if nobody can listen on the way"},
    {"no password supplied", SIMBA_EPERM, "the server wants a password, and the URL has none"},
    {"certificate", SIMBA_EPERM, NULL}, /* also if its name leads to another server by mistake */
};

/* Of several hosts, each has a line. One that only cannot be reached may be the right one, later. */
static bool all_say(const char *text, const char *words)
{
    bool any = false;
    for (size_t length; *text; text += length + (text[length] == '\n')) {
        length = strcspn(text, "\n");
        const bool says = memmem(text, length, words, strlen(words)) != NULL;
        if (!says && strncmp(text, "connection to server", 20) == 0)
            return false;
        any = any || says;
    }
    return any;
}

int simba__pg_fail_connection(const simba__pg_options *options, PGconn *pg, simba__sql_failure *why)
{
    const char *text = PQerrorMessage(pg);
    const char *sqlstate = find_sqlstate(text);
    const char *said = text[0] ? text : "the connection is lost";
    int code = SIMBA_EUNAVAILABLE;
    if (sqlstate)
        return fail(options, sqlstate, sqlstate + 7, why);
    for (size_t i = 0; i < sizeof hopeless / sizeof *hopeless && code == SIMBA_EUNAVAILABLE; i++)
        if (all_say(text, hopeless[i].words)) {
            code = hopeless[i].code;
            said = hopeless[i].said ? hopeless[i].said : said;
        }
    return simba__sql_fail(why, SIMBA__SQL_LOST, code, "postgresql %s: %.*s", options->where, (int)strcspn(said, "\n"),
                           said);
}

int simba__pg_fail_result(const simba__pg_options *options, PGconn *pg, const PGresult *result, simba__sql_failure *why)
{
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    if (sqlstate)
        return fail(options, sqlstate, text ? text : "", why);
    if (PQstatus(pg) == CONNECTION_BAD)
        return simba__pg_fail_connection(options, pg, why);
    const char *told = result ? PQresultErrorMessage(result) : PQerrorMessage(pg);
    if (told[0] == '\0')
        told = "there was no result";
    return simba__sql_fail(why, SIMBA__SQL_AWAY, SIMBA_ESTORE, "postgresql %s: %.*s", options->where,
                           (int)strcspn(told, "\n"), told);
}
