/* Each thing that a server can say or do instead of answering, on a real one, and what becomes of the request: the table is
 * in src/stores/mysql/errors.c. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <simba.h>
#include <sys/socket.h>

#include "backends/test_mysql.h"

static void assert_refused(testhost *h, int code, const char *word)
{
    const simba_error error = refused(h, SIMBA_OP_ACQUIRE, "orders", "me");
    assert_string_equal(simba_error_name(error.code), simba_error_name(code));
    assert_in(error.text, word);
}

/* Ask again until it works; the store connects again by itself. */
static void assert_recovers(testhost *h)
{
    for (int i = 0; i < 400; i++) {
        testhost_request r = testhost_request_of(h, SIMBA_OP_ACQUIRE, "recovery", "me", 77, 0);
        testhost_ask(h, &r);
        if (r.request.reply.status == 0)
            return;
        testhost_pump(h, NULL, 10);
    }
    fail_msg("it does not recover");
}

static const char *url_of(const char *user, const char *rest)
{
    static char url[256];
    snprintf(url, sizeof url, "mysql://%s@127.0.0.1:%d/%s", user, mariadb.port, rest);
    return url;
}

/* --- the table ------------------------------------------------------------------------------------------- */

/* Without a table the error says what to run, and after it was run it works; nothing is made unasked. */
static void no_table(void **state)
{
    open_at(&a, url_of("root", "simba"));
    assert_refused(&a, SIMBA_ESTORE, "`simba init`");
    assert_int_equal(refused(&a, SIMBA_OP_LIST, NULL, NULL).code, SIMBA_ESTORE);
    assert_string_equal(say("select count(*) from information_schema.tables where table_schema = 'simba'"), "0");
    ask(&a, SIMBA_OP_EXAMINE, NULL, NULL, 0, 0);
    assert_int_equal(a.found_count, 1);
    assert_int_equal(a.found[0].verdict, SIMBA_VERDICT_BROKEN);
    ask(&a, SIMBA_OP_PREPARE, NULL, NULL, 0, 0);
    assert_mine(acquire(&a, "orders", "me", 1));
    /* It is dropped under our feet. */
    say("drop table simba_mutex");
    assert_refused(&a, SIMBA_ESTORE, "`simba init`");
    testhost_close(&a);
}

/* A table of another name, and tables that will not do. */
static void odd_tables(void **state)
{
    open_at(&a, url_of("root", "simba?table=locks_2&create=yes"));
    assert_mine(acquire(&a, "orders", "me", 1));
    assert_string_equal(say("select count(*) from locks_2"), "1");
    testhost_close(&a);
    say("drop table locks_2");

    say("create table simba_mutex (mutex varchar(66) primary key, other int)");
    open_store(&a);
    assert_refused(&a, SIMBA_ECORRUPT, "is not simba's");
    testhost_close(&a);
    assert_string_equal(say("select count(*) from information_schema.columns where table_name = 'simba_mutex'"), "2");

    say("drop table simba_mutex");
    say(JVM_TABLE);
    say("alter table simba_mutex engine = MyISAM");
    open_store(&a);
    assert_refused(&a, SIMBA_ESTORE, "MyISAM");
    testhost_close(&a);
}

/* --- who may ---------------------------------------------------------------------------------------------- */

/* A wrong password, a database that there is not, a user who may not write: each says so, and shows no password. */
static void about_login(void **state)
{
    say("create or replace user worker@'%%' identified by 'good-secret'");
    say("grant select, insert, update on simba.* to worker@'%%'");
    open_store(&b);
    acquire(&b, "other", "me", 1);
    open_at(&a, url_of("worker:good-secret", "simba"));
    assert_mine(acquire(&a, "orders", "me", 1));
    testhost_close(&a);
    open_at(&a, url_of("worker:bad-secret", "simba"));
    const simba_error error = refused(&a, SIMBA_OP_ACQUIRE, "orders", "me");
    assert_int_equal(error.code, SIMBA_EPERM);
    assert_null(strstr(error.text, "bad-secret"));
    say("set password for worker@'%%' = password('bad-secret')"); /* somebody puts it right */
    assert_recovers(&a);
    testhost_close(&a);
    open_at(&a, url_of("root", "nowhere"));
    assert_refused(&a, SIMBA_ESTORE, "nowhere");
    testhost_close(&a);
    say("revoke update on simba.* from worker@'%%'");
    open_at(&a, url_of("worker:bad-secret", "simba"));
    assert_refused(&a, SIMBA_EPERM, "denied");
    testhost_close(&a);
    testhost_close(&b);
    say("drop user worker@'%%'");
}

/* `simba init` and `simba doctor` as a user who lacks a right say which, also where the table is there already; and they change
 * no row. */
static void missing_rights(void **state)
{
    static const char *const rights[] = {"select", "insert", "update"};
    open_store(&b);
    acquire(&b, "other", "me", 1);
    for (size_t i = 0; i < sizeof rights / sizeof *rights; i++) {
        say("create or replace user worker@'%%'");
        say("grant select, insert, update on simba.* to worker@'%%'");
        open_at(&a, url_of("worker", "simba"));
        ask(&a, SIMBA_OP_PREPARE, NULL, NULL, 0, 0);
        say("revoke %s on simba.* from worker@'%%'", rights[i]);
        const simba_error error = refused(&a, SIMBA_OP_PREPARE, NULL, NULL);
        assert_int_equal(error.code, SIMBA_EPERM);
        assert_non_null(strcasestr(error.text, rights[i]));
        a.found_count = 0;
        ask(&a, SIMBA_OP_EXAMINE, NULL, NULL, 0, 0);
        assert_true(a.found_count > 0);
        const testhost_found *last = &a.found[a.found_count - 1];
        assert_int_equal(last->verdict, SIMBA_VERDICT_BROKEN);
        assert_non_null(strcasestr(last->text, rights[i]));
        testhost_close(&a);
    }
    assert_string_equal(say("select count(*), sum(version) from simba_mutex"), "1 1");
    testhost_close(&b);
    say("drop user worker@'%%'");
}

/* More connections than the server grants: unavailable, until there are fewer. */
static void too_many(void **state)
{
    say("create or replace user worker@'%%' with max_user_connections 1");
    say("grant all on simba.* to worker@'%%'");
    open_at(&a, url_of("worker", "simba?create=yes"));
    open_at(&b, url_of("worker", "simba"));
    assert_mine(acquire(&a, "orders", "me", 1));
    assert_refused(&b, SIMBA_EUNAVAILABLE, "max_user_connections");
    testhost_close(&a);
    assert_recovers(&b);
    testhost_close(&b);
    say("drop user worker@'%%'");
}

/* --- connections -------------------------------------------------------------------------------------------- */

/* Connecting takes longer than a request has time. The next one finds the connection made. */
static void slow_to_connect(void **state)
{
    open_store(&a);
    testhost_request r = testhost_request_of(&a, SIMBA_OP_ACQUIRE, "orders", "me", 1, 0);
    testhost_submit(&a, &r);
    testhost_flush(&a);
    /* Its worker is busy with that while time passes. */
    simba_job *job = a.first_job;
    a.first_job = NULL;
    a.last_job = &a.first_job;
    for (int i = 0; i < 20; i++)
        testhost_advance(&a, 500);
    assert_int_equal(r.error.code, SIMBA_ETIMEDOUT);
    a.first_job = job;
    a.last_job = &job->next;
    testhost_run_jobs(&a);
    const long long before = counter("Connections");
    assert_mine(acquire(&a, "orders", "me", 1));
    assert_int_equal(counter("Connections"), before);
    testhost_close(&a);
}

/* --- locks ------------------------------------------------------------------------------------------------- */

static const testhost_request *neighbour, *locked;
static bool told_in_time;    /* the neighbour had its answer while the locked one still waited */
static long long waits_then; /* how often anybody had waited for a lock by then */

static void look_at_neighbour(testhost *h)
{
    if (told_in_time || !neighbour->done || locked->done)
        return;
    told_in_time = true;
    waits_then = counter("Innodb_row_lock_waits");
}

/* Somebody keeps a row locked: requests for others go on, and are answered; that one waits until its time is over. */
static void locked_row(void **state)
{
    open_store(&a);
    for (int i = 0; i < 3; i++)
        acquire(&a, i == 0 ? "a" : i == 1 ? "b" : "c", "me", 1);
    MYSQL *other = connect_raw();
    say_on(other, "begin");
    say_on(other, "select * from simba_mutex where mutex = 'b' for update");
    testhost_request r[4] = {
        testhost_request_of(&a, SIMBA_OP_RENEW, "a", "me", 1, 1),
        testhost_request_of(&a, SIMBA_OP_RENEW, "b", "me", 1, 1),
        testhost_request_of(&a, SIMBA_OP_RENEW, "c", "me", 1, 1),
        testhost_request_of(&a, SIMBA_OP_ACQUIRE, "d", "me", 1, 0), /* there is no such row yet */
    };
    for (int i = 0; i < 4; i++) {
        r[i].request.deadline.ns = simba__clock_boot().ns + 2500 * SIMBA__NS_PER_MS;
        testhost_submit(&a, &r[i]);
    }
    neighbour = &r[0];
    locked = &r[1];
    told_in_time = false;
    const long long waits_before = counter("Innodb_row_lock_waits");
    a.on_now = look_at_neighbour;
    testhost_flush(&a);
    await_answers(&a);
    a.on_now = NULL;
    assert_true(told_in_time);
    assert_int_equal(waits_then, waits_before); /* nobody ever waits for the row */
    assert_mine(r[0].request.reply);
    assert_int_equal(r[1].error.code, SIMBA_ETIMEDOUT);
    assert_mine(r[2].request.reply);
    assert_mine(r[3].request.reply);
    say_on(other, "rollback");
    assert_mine(ask(&a, SIMBA_OP_RENEW, "b", "me", 1, 1));
    mysql_close(other);
    testhost_close(&a);
}

/* As many rows are locked as there are connections: that keeps nobody else waiting for long. */
static void locked_rows(void **state)
{
    static const char *const names[] = {"b", "c", "a"};
    testhost_request r[3];
    open_store(&a);
    for (int i = 0; i < 3; i++)
        acquire(&a, names[i], "me", 1);
    MYSQL *other = connect_raw();
    say_on(other, "begin");
    say_on(other, "select * from simba_mutex where mutex in ('b', 'c') for update");
    for (int i = 0; i < 3; i++) {
        r[i] = testhost_request_of(&a, SIMBA_OP_RENEW, names[i], "me", 1, 1);
        testhost_submit(&a, &r[i]);
        testhost_flush(&a); /* each by itself */
    }
    locked = &r[0];
    neighbour = &r[2];
    told_in_time = false;
    a.on_now = look_at_neighbour;
    await_answers(&a);
    a.on_now = NULL;
    assert_true(told_in_time);
    assert_int_equal(r[0].error.code, SIMBA_ETIMEDOUT);
    assert_int_equal(r[1].error.code, SIMBA_ETIMEDOUT);
    assert_mine(r[2].request.reply);
    mysql_close(other);
    testhost_close(&a);
}

/* The server takes small packets only: more statements, and everything works. */
static void small_packets(void **state)
{
    enum { N = 100 };
    static testhost_request r[N];
    static char names[N][270];
    say("set global max_allowed_packet = 4096");
    open_store(&a);
    for (int i = 0; i < N; i++) {
        memset(names[i], 0, sizeof names[i]);
        for (int k = 0; k < 64; k++)
            strcat(names[i], "\U0001F512");
        snprintf(names[i] + strlen(names[i]), 4, "%02d", i);
        r[i] = testhost_request_of(&a, SIMBA_OP_ACQUIRE, names[i], "me", 1, 0);
        testhost_submit(&a, &r[i]);
    }
    testhost_flush(&a);
    await_answers(&a);
    for (int i = 0; i < N; i++) {
        if (r[i].request.reply.status < 0)
            fail_msg("%s", r[i].error.text);
        assert_mine(r[i].request.reply);
    }
    testhost_close(&a);
    say("set global max_allowed_packet = 16777216");
}

/* --- ways to the server ------------------------------------------------------------------------------------ */

/* How long a busy machine may take to shake hands over TLS. */
enum { SLOW_HANDSHAKE_S = 20 };

/* By TCP and by socket, with TLS and without, by a certificate that is vouched for and by one that is not. */
static void about_ways(void **state)
{
    char url[256], named[64], numbered[64];
    snprintf(named, sizeof named, "mysql://root@localhost:%s", mariadb.port_text);
    snprintf(numbered, sizeof numbered, "mysql://root@127.0.0.1:%s", mariadb.port_text);
    const struct {
        const char *server, *settings, *file;
        int code;
    } ways[] = {
        {named, "create=yes", NULL, 0},
        {"mariadb://root@", "socket=", "my.sock", 0},
        {named, "tls=yes&ca=", "ca.pem", 0},
        {numbered, "ca=", "ca.pem", SIMBA_EPERM}, /* the certificate is for localhost */
        {named, "tls=yes", NULL, SIMBA_EPERM},    /* nobody vouches for it */
        {named, "tls=yes&verify=no", NULL, 0},
        {named, "tls=yes&ca=", "nothing.pem", SIMBA_EPERM},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const bool has_file = ways[i].file != NULL;
        snprintf(url, sizeof url, "%s/simba?%s%s%s%s&connect-timeout=%ds", ways[i].server, ways[i].settings,
                 has_file ? mariadb.folder : "", has_file ? "/" : "", has_file ? ways[i].file : "", SLOW_HANDSHAKE_S);
        open_at(&a, url);
        testhost_request r = testhost_request_of(&a, SIMBA_OP_ACQUIRE, "orders", "me", 1, 0);
        r.request.deadline.ns += SLOW_HANDSHAKE_S * 1000 * SIMBA__NS_PER_MS;
        testhost_ask(&a, &r);
        if (r.request.reply.status != ways[i].code)
            fail_msg("%s: %d %s", url, r.request.reply.status, r.error.text);
        testhost_close(&a);
    }
    snprintf(url, sizeof url, "mysql://root@localhost:%d/simba?tls=yes&verify=no", mariadb.port);
    open_at(&a, url);
    acquire(&a, "orders", "me", 1);
    assert_true(atoi(say("select count(*) from information_schema.processlist where user = 'root'")) >= 2);
    testhost_close(&a);
}

/* Is this a connection of the store? */
static bool is_ours(int fd)
{
    struct sockaddr_in peer = {0};
    socklen_t size = sizeof peer;
    return fd != (int)mysql_get_socket(raw) && getpeername(fd, (struct sockaddr *)&peer, &size) == 0 &&
           peer.sin_family == AF_INET && ntohs(peer.sin_port) == mariadb.port;
}

/* The kernel probes connections that are idle, so that no router forgets them. */
static void about_idle(void **state)
{
    unsigned seen = 0;
    open_at(&a, url_of("root", "simba?create=yes"));
    acquire(&a, "orders", "me", 1);
    for (int fd = 3; fd < 256; fd++) {
        int on = 0, idle_s = 0;
        socklen_t size = sizeof on;
        if (!is_ours(fd))
            continue;
        seen++;
        assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &size), 0);
        assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, &size), 0);
        assert_int_equal(on, 1);
        assert_int_equal(idle_s, 10);
    }
    assert_true(seen > 0);
    testhost_close(&a);
}

/* What is wrong with a URL is said before anything is sent. */
static void about_urls(void **state)
{
    static const struct {
        const char *url, *word;
    } bad[] = {
        {"mysql://root@host", "names no database"},
        {"mysql://root@host/a/b", "not the name of a database"},
        {"mysql://root@h1,h2/db", "one host"},
        {"mysql://root@::1/db", "brackets"},
        {"mysql://root@host:0/db", "port"},
        {"mysql://root@host:99999/db", "port"},
        {"mysql://root@host/db?socket=/tmp/x", "leave one"},
        {"mysql://root@/db?socket=x", "absolute"},
        {"mysql://root@host/db?table=a`b", "table"},
        {"mysql://root@host/db?create=maybe", "yes or no"},
        {"mysql://root@host/db?tls=no&ca=/x", "tls=no"},
        {"mysql://root@host/db?cert=/x", "go together"},
        {"mysql://root@/db?socket=/x&tls=yes", "TLS and for a socket"},
        {"mysql://root@host/db?timeout=2h", "1h"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        simba_error err = {0};
        assert_int_equal(testhost_open(&a, &simba__backend_mysql, bad[i].url, &err), SIMBA_EURL);
        assert_in(err.text, bad[i].word);
    }
}

/* With certificates of its own. */
static int tls_setup(void **state)
{
    signal(SIGPIPE, SIG_IGN);
    server_init(&mariadb);
    snprintf(mysql_url, sizeof mysql_url, "mysql://root@127.0.0.1:%d/simba?create=yes", mariadb.port);
    if (!server_make_certificates(mariadb.folder))
        fail_msg("no certificates");
    start_mariadb((const char *const[]){"--ssl-ca=ca.pem", "--ssl-cert=cert.pem", "--ssl-key=key.pem", NULL});
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(no_table, setup),      cmocka_unit_test_setup(odd_tables, setup),
        cmocka_unit_test_setup(about_login, setup),   cmocka_unit_test_setup(missing_rights, setup),
        cmocka_unit_test_setup(too_many, setup),      cmocka_unit_test_setup(slow_to_connect, setup),
        cmocka_unit_test_setup(locked_row, setup),    cmocka_unit_test_setup(locked_rows, setup),
        cmocka_unit_test_setup(small_packets, setup), cmocka_unit_test_setup(about_ways, setup),
        cmocka_unit_test_setup(about_idle, setup),    cmocka_unit_test(about_urls),
    };
    return SERVER_RUN_TESTS("mariadbd", tests, tls_setup, group_teardown);
}
