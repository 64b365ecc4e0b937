/* Servers that are not what they seem, or not what somebody between them and us makes of them: how they want the password,
 * that they do without TLS, how slowly they speak, and bytes that are not what they should be. And what the client library does to the program around it. */
#include <arpa/inet.h>
#include <simba.h>
#include <sys/socket.h>

#include "backends/test_mysql.h"
#include "lib/fake_mysql.h"

#define SECRET "a-secret-word"

static const char *url_at(int port, const char *rest)
{
    static char url[512];
    snprintf(url, sizeof url, "mysql://app:" SECRET "@127.0.0.1:%d/simba%s", port, rest);
    return url;
}

static int64_t now_ms(void)
{
    return simba__clock_boot().ns / SIMBA__NS_PER_MS;
}

/* What becomes of a request to this server. */
static simba_error try_at(const fake_mysql *fake, const char *rest)
{
    open_at(&a, url_at(fake->port, rest));
    const simba_error error = refused(&a, SIMBA_OP_ACQUIRE, "orders", "me");
    testhost_close(&a);
    return error;
}

/* --- signals ---------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t pipes_broken;

static void on_broken_pipe(int number)
{
    pipes_broken++;
}

static void assert_our_handler(void)
{
    struct sigaction now;
    assert_int_equal(sigaction(SIGPIPE, NULL, &now), 0);
    assert_ptr_equal(now.sa_handler, on_broken_pipe);
}

/* Every connection to the server is gone, and nobody has noticed yet. */
static void break_connections(void)
{
    struct sockaddr_in peer = {0};
    for (int fd = 3; fd < 256; fd++) {
        socklen_t size = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && peer.sin_family == AF_INET &&
            ntohs(peer.sin_port) == mariadb.port)
            shutdown(fd, SHUT_RDWR);
    }
}

/* What the program wants to happen on SIGPIPE is its own matter, from before the client is opened to after it is closed;
 * and a server that has gone sends it no such signal. First of all: the client library is started here. */
static void sigpipe_is_the_programs(void **state)
{
    pipes_broken = 0;
    signal(SIGPIPE, on_broken_pipe);
    open_at(&a, mysql_url);
    assert_our_handler();
    const simba_reply won = acquire(&a, "orders", "me", 1);
    assert_our_handler();
    break_connections();
    assert_mine(ask(&a, SIMBA_OP_RENEW, "orders", "me", 1, won.owner.token));
    break_connections();
    testhost_close(&a);
    assert_our_handler();
    assert_int_equal(pipes_broken, 0);
    signal(SIGPIPE, SIG_DFL);
}

/* --- how the server wants the password -------------------------------------------------------------------- */

/* A server that wants the password itself does not get it, whether it says so at once or when we have logged in. */
static void no_clear_password(void **state)
{
    for (int at_once = 0; at_once < 2; at_once++) {
        fake_mysql fake = {.plugin = at_once ? "mysql_clear_password" : NULL, .switches = "mysql_clear_password"};
        fake_mysql_start(&fake);
        const simba_error error = try_at(&fake, "");
        fake_mysql_stop(&fake);
        assert_int_equal(error.code, SIMBA_EPERM);
        assert_in(error.text, "tls=yes");
        assert_false(fake_has_heard(&fake.ear, SECRET));
    }
}

/* Nor does one that asks questions: nothing of it is printed, and nobody's standard input is read. */
static void no_dialog(void **state)
{
    fake_mysql fake = {.switches = "dialog", .question = "\4Your \033[31mpassword: "};
    char command[1024], out[4096];
    fake_mysql_start(&fake);
    snprintf(command, sizeof command, "printf 'one\\ntwo\\n' | { '%s' list --url '%s' 2>&1; cat; }", SIMBA_TEST_COMMAND,
             url_at(fake.port, ""));
    FILE *pipe = popen(command, "r"); // NOLINT(cert-env33-c): words of our own
    assert_non_null(pipe);
    out[fread(out, 1, sizeof out - 1, pipe)] = '\0';
    pclose(pipe);
    fake_mysql_stop(&fake);
    assert_in(out, "tls=yes");
    assert_in(out, "one\ntwo\n");
    assert_null(strstr(out, "password:"));
    assert_false(fake_has_heard(&fake.ear, "one"));
    assert_false(fake_has_heard(&fake.ear, SECRET));
}

/* caching_sha2_password, where the server may ask for the password encrypted with a key that it sends: on a connection that
 * anybody may be at the other end of, that is as good as in clear. */
static void no_key_of_the_servers(void **state)
{
    fake_mysql fake = {.switches = "caching_sha2_password", .then = "\1\4"};
    fake_mysql_start(&fake);
    const simba_error error = try_at(&fake, "");
    fake_mysql_stop(&fake);
    assert_int_equal(error.code, SIMBA_EPERM);
    assert_in(error.text, "server-public-key=");
}

/* With a key of the server's that we were given the password goes out encrypted by that; the server is not asked for one.
 * Without the file nothing goes out. */
static void key_of_our_own(void **state)
{
    char command[256], rest[128];
    fake_mysql fake = {.switches = "caching_sha2_password", .then = "\1\4"};
    fake_mysql_start(&fake);
    snprintf(rest, sizeof rest, "?server-public-key=%s/public.pem", mariadb.folder);
    const simba_error missing = try_at(&fake, rest);
    assert_int_equal(missing.code, SIMBA_EPERM);
    assert_int_equal(fake.ear.size, 0);
    if (mysql_get_client_version() < 30320) { /* such a library would ask the server for a key all the same */
        assert_in(missing.text, "3.3.20");
        fake_mysql_stop(&fake);
        return;
    }
    assert_in(missing.text, "public.pem");
    snprintf(command, sizeof command,
             "cd %s && openssl genrsa 2048 2>/dev/null | openssl rsa -pubout -out public.pem 2>/dev/null",
             mariadb.folder);
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c): words of our own
    try_at(&fake, rest);                  /* the server hangs up in the end */
    fake_mysql_stop(&fake);
    assert_int_equal(fake.last_size, 4 + 256); /* one block of RSA */
    assert_false(fake_has_heard(&fake.ear, SECRET));
}

/* --- TLS ---------------------------------------------------------------------------------------------------- */

/* With TLS asked for in whatever way, a server that says it has none is not even sent a name. */
static void no_way_without_tls(void **state)
{
    char certificate[256];
    snprintf(certificate, sizeof certificate, "?verify=no&cert=%1$s/cert.pem&key=%1$s/key.pem", mariadb.folder);
    const char *const ways[] = {"?tls=yes&verify=no", "?verify=no", "?tls=yes", certificate};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (int drip_ms = 0; drip_ms < 2; drip_ms++) {
            fake_mysql fake = {.drip_ms = drip_ms};
            fake_mysql_start(&fake);
            const simba_error error = try_at(&fake, ways[i]);
            fake_mysql_stop(&fake);
            assert_int_equal(error.code, SIMBA_ESTORE);
            assert_in(error.text, "TLS");
            assert_int_equal(fake.ear.size, 0);
        }
}

/* --- time --------------------------------------------------------------------------------------------------- */

/* However slowly a server speaks, a connect is over when its time is; in clear, and where it should come to TLS. */
static void slow_greeting(void **state)
{
    for (int tls = 0; tls < 2; tls++) {
        fake_mysql fake = {.drip_ms = 150, .offers_tls = true};
        fake_mysql_start(&fake);
        const int64_t began_ms = now_ms();
        const simba_error error = try_at(&fake, tls ? "?connect-timeout=400ms&verify=no" : "?connect-timeout=400ms");
        assert_int_equal(error.code, SIMBA_EUNAVAILABLE);
        assert_in_range(now_ms() - began_ms, 390, 1200);
        fake_mysql_stop(&fake);
    }
}

/* A server that goes away in the middle of a TLS handshake is away: it has refused nobody anything. */
static void lost_handshake(void **state)
{
    fake_mysql fake = {.offers_tls = true};
    fake_mysql_start(&fake);
    const simba_error error = try_at(&fake, "?verify=no");
    fake_mysql_stop(&fake);
    assert_int_equal(error.code, SIMBA_EUNAVAILABLE);
    assert_in(error.text, "TLS");
}

/* A client whose server drips is closed at once, whatever it is dripping. */
static void close_beside_a_slow_server(void **state)
{
    for (int later = 0; later < 2; later++) {
        fake_mysql fake = {.drip_ms = later ? 0 : 1000, .lets_in = later};
        simba_client *client;
        simba_locker *locker;
        simba_error err = {0};
        fake_mysql_start(&fake);
        assert_int_equal(
            simba_client_open(url_at(fake.port, "?connect-timeout=1h&timeout=1h&ttl=400ms&transition=400ms"), NULL,
                              &err, &client),
            0);
        assert_int_equal(simba_locker_new(client, "orders", NULL, &err, &locker), 0);
        assert_true(simba_locker_acquire(locker, 100, &err) < 0);
        simba_locker_free(locker);
        const int64_t began_ms = now_ms();
        assert_int_equal(simba_client_close(client), 0);
        assert_in_range(now_ms() - began_ms, 0, 900);
        assert_true(atomic_load(&fake.connections) > 0);
        fake_mysql_stop(&fake);
    }
}

static void *heal_soon(void *arg)
{
    usleep(150000);
    proxy_set(arg, PROXY_PASS);
    return NULL;
}

/* The first packet of a connect gets lost. The kernel would repeat it after a second; we try anew long before. */
static void first_packet_lost(void **state)
{
    char url[128];
    proxy way;
    pthread_t healer;
    proxy_start(&way, mariadb.port);
    snprintf(url, sizeof url, "mysql://root@127.0.0.1:%d/simba?create=yes", way.port);
    open_at(&a, url);
    proxy_set(&way, PROXY_LOSS);
    assert_int_equal(pthread_create(&healer, NULL, heal_soon, &way), 0);
    const int64_t began_ms = now_ms();
    assert_mine(acquire(&a, "invoices", "me", 1));
    assert_in_range(now_ms() - began_ms, 150, 900);
    pthread_join(healer, NULL);
    testhost_close(&a);
    proxy_stop(&way);
}

/* An answer of a gigabyte is not taken in. */
static void about_flood(void **state)
{
    fake_mysql fake = {.floods = true};
    fake_mysql_start(&fake);
    const simba_error error = try_at(&fake, "");
    fake_mysql_stop(&fake);
    assert_true(error.code < 0);
    assert_in_range(atomic_load(&fake.flooded), 1, 64 << 20);
}

/* --- bytes ---------------------------------------------------------------------------------------------------- */

static void put_length(unsigned char *bytes, size_t size)
{
    bytes[0] = (unsigned char)(size - 4);
    bytes[1] = (unsigned char)((size - 4) >> 8);
    bytes[2] = (unsigned char)((size - 4) >> 16);
}

static simba_error greeted_by(const void *bytes, size_t size)
{
    fake_mysql fake = {.hello = bytes, .hello_size = size};
    fake_mysql_start(&fake);
    const simba_error error = try_at(&fake, "");
    fake_mysql_stop(&fake);
    assert_int_equal(error.code, SIMBA_EUNAVAILABLE);
    assert_int_equal(fake.ear.size, 0);
    return error;
}

/* A greeting that ends too early, wherever that is, that has no end, or that is of another kind is not given to the client
 * library, and nothing is sent to who says it. */
static void broken_greeting(void **state)
{
    mysql_speech whole = {.length = 0};
    unsigned char bytes[2048];
    mysql_say_hello(&whole, "mysql_native_password", false);
    for (size_t size = 5; size < whole.length - 23; size += size < 30 || size > 50 ? 1 : 7) {
        memcpy(bytes, whole.bytes, size);
        put_length(bytes, size);
        assert_in(greeted_by(bytes, size).text, "no server of MySQL's");
    }
    const size_t version = 5;
    memcpy(bytes, whole.bytes, whole.length);
    memset(bytes + version, '1', whole.length - version); /* a string without an end */
    assert_in(greeted_by(bytes, whole.length).text, "no server of MySQL's");
    memcpy(bytes, whole.bytes, whole.length);
    bytes[version] = 'x'; /* not a number */
    assert_in(greeted_by(bytes, whole.length).text, "no server of MySQL's");
    memcpy(bytes, whole.bytes, whole.length);
    bytes[4] = 11; /* of another protocol */
    assert_in(greeted_by(bytes, whole.length).text, "no server of MySQL's");
    memset(bytes, 0xFF, sizeof bytes);
    assert_in(greeted_by(bytes, sizeof bytes).text, "no server of MySQL's");
    greeted_by("HTTP/1.1 400 Bad Request\r\n\r\n", 28);
    greeted_by("", 0);
}

/* What becomes of a request; whatever the server twists, it is not granted. */
static int twisted_by(mysql_twist twist)
{
    fake_mysql fake = {.twist = &twist};
    fake_mysql_start(&fake);
    open_at(&a, url_at(fake.port, ""));
    testhost_request r = testhost_request_of(&a, SIMBA_OP_ACQUIRE, "orders", "me", 1, 0);
    testhost_ask(&a, &r);
    assert_true(r.request.reply.status < 0 || r.request.reply.outcome == SIMBA_NOT_MINE);
    testhost_close(&a);
    fake_mysql_stop(&fake);
    return r.request.reply.status;
}

/* The server that the next tests twist is one that we understand: it says that somebody else has the mutex. */
static void honest_answers(void **state)
{
    const mysql_twist none = {.kind = MYSQL_HONEST};
    fake_mysql fake = {.twist = &none};
    fake_mysql_start(&fake);
    open_at(&a, url_at(fake.port, ""));
    const simba_reply reply = ask(&a, SIMBA_OP_ACQUIRE, "orders", "me", 1, 0);
    assert_int_equal(reply.status, 0);
    assert_int_equal(reply.outcome, SIMBA_NOT_MINE);
    assert_string_equal(reply.owner.id, "you");
    assert_int_equal(reply.owner.token, 7);
    assert_int_equal(reply.owner.transition_at_ms, 1700000010000);
    testhost_close(&a);
    fake_mysql_stop(&fake);
}

/* Results of more or fewer columns than were asked for, results where there is none, one result too few or too many. */
static void other_numbers_of_columns(void **state)
{
    static const mysql_twist_kind kinds[] = {MYSQL_TEXT_WIDTH, MYSQL_ROW_WIDTH, MYSQL_WIDTH_ALONE};
    static const uint64_t numbers[] = {1, 2, 15, 17, 60, 250};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            assert_true(twisted_by((mysql_twist){.kind = kinds[i], .number = numbers[k]}) < 0);
    assert_true(twisted_by((mysql_twist){.kind = MYSQL_SWAPPED}) < 0);
    assert_true(twisted_by((mysql_twist){.kind = MYSQL_TEXT_NULL}) < 0);
    assert_true(twisted_by((mysql_twist){.kind = MYSQL_NO_MORE}) < 0);
    assert_true(twisted_by((mysql_twist){.kind = MYSQL_ONE_MORE}) < 0);
}

/* --- the program ---------------------------------------------------------------------------------------------- */

/* A server without TLS, and certificates to name in URLs. Not by start_mariadb, which would start the client library. */
static int hostile_setup(void **state)
{
    server_init(&mariadb);
    snprintf(mysql_url, sizeof mysql_url, "mysql://root@127.0.0.1:%d/simba?create=yes", mariadb.port);
    if (!server_make_certificates(mariadb.folder))
        fail_msg("no certificates");
    if (!server_start_mariadb(&mariadb, (const char *const[]){"--skip-ssl", NULL}))
        fail_msg("mariadbd does not start; see %s/log", mariadb.folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sigpipe_is_the_programs),
        cmocka_unit_test(no_clear_password),
        cmocka_unit_test(no_dialog),
        cmocka_unit_test(no_key_of_the_servers),
        cmocka_unit_test(key_of_our_own),
        cmocka_unit_test(no_way_without_tls),
        cmocka_unit_test(slow_greeting),
        cmocka_unit_test(lost_handshake),
        cmocka_unit_test(first_packet_lost),
        cmocka_unit_test(about_flood),
        cmocka_unit_test(broken_greeting),
        cmocka_unit_test(honest_answers),
        cmocka_unit_test(other_numbers_of_columns),
        cmocka_unit_test(close_beside_a_slow_server),
    };
    return SERVER_RUN_TESTS("mariadbd", tests, hostile_setup, group_teardown);
}
