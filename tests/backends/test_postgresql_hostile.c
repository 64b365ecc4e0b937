/* Servers that are not what they seem, or that somebody between them and us has changed: what they say is wrong, too much, too slow,
 * or nothing at all. Whatever it is, nobody is granted anything, nobody waits for longer than was allowed, memory stays bounded,
 * and the client can be closed. */
#include <libpq-fe.h>
#include <simba.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/cm.h"
#include "lib/fake_postgresql.h"
#include "lib/referee.h"

#define SECRET "a-secret-word"
#define LIMIT_MS (ref_scaled_ms(150))
#define SLACK_MS (ref_scaled_ms(250)) /* for a busy machine; what goes wrong takes longer */
#define BYTES_MOST ((size_t)32 << 20) /* what we take, and what the kernel keeps for us */

static fake_postgresql fake;
static simba_error latest;

/* --- what a contender sees ------------------------------------------------------------------------------- */

static void assert_printable(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127)
            fail_msg("character %d in an error", *text);
}

/* Try to lock, for LIMIT_MS at most. What came of it. */
static int try_lock(const char *what)
{
    char url[256];
    simba_client *client;
    simba_locker *locker;
    simba_error err = {0};
    ref_scene("%s", what);
    ref_watchdog(30);
    fake_postgresql_start(&fake);
    snprintf(url, sizeof url,
             "postgresql://app:" SECRET
             "@127.0.0.1:%d/simba?sslmode=disable&connect-timeout=300ms&ttl=200ms&transition=200ms",
             fake.port);
    if (simba_client_open(url, NULL, &err, &client) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(simba_locker_new(client, "orders", NULL, &err, &locker), 0);
    const int64_t begun_ms = ref_now_ms();
    const int rc = simba_locker_acquire(locker, LIMIT_MS, &err);
    const int64_t took_ms = ref_now_ms() - begun_ms;
    simba_locker_free(locker);
    const int64_t closes_ms = ref_now_ms();
    assert_int_equal(simba_client_close(client), 0);
    const int64_t closed_ms = ref_now_ms() - closes_ms;
    fake_postgresql_stop(&fake);
    ref_watchdog(0);
    print_message("# %s: %s after %lld ms, closed after %lld ms, %zu bytes: %s\n", what, simba_error_name(rc),
                  (long long)took_ms, (long long)closed_ms, atomic_load(&fake.sent), rc < 0 ? err.text : "");
    if (took_ms > LIMIT_MS + 4 * SLACK_MS || closed_ms > ref_scaled_ms(1800))
        fail_msg("%s: acquire took %lld ms, close %lld ms", what, (long long)took_ms, (long long)closed_ms);
    latest = err;
    if (rc < 0) {
        assert_printable(err.text);
        assert_null(strstr(err.text, SECRET));
    }
    return rc;
}

static void assert_no_grant(const char *what)
{
    assert_true(try_lock(what) < 0);
    assert_true(atomic_load(&fake.connections) > 0);
    if (atomic_load(&fake.sent) > BYTES_MOST)
        fail_msg("%s: %zu bytes were taken in", what, atomic_load(&fake.sent));
}

/* --- rows that cannot be ----------------------------------------------------------------------------------- */

enum {
    MUTEX,
    ACQUIRED_AT,
    TTL_AT,
    TRANSITION_AT,
    OWNER,
    VERSION,
    NONCE,
    NONCE_VERSION,
    REVOKED,
    NOTE_TOKEN,
    NOTE_NUMBER,
    FORGOTTEN,
    COLUMNS,
    NOW = COLUMNS, /* another result */
    VALUES
};

typedef struct lie {
    const char *what;
    int column;
    const char *value;
} lie;

/* The row of a mutex that nobody owns, but for what `user` says otherwise. */
static void fill_row(const lie *told, const char *values[VALUES])
{
    static const char *const honest[VALUES] = {
        [MUTEX] = "orders", [ACQUIRED_AT] = "0", [TTL_AT] = "0",        [TRANSITION_AT] = "0", [OWNER] = "",
        [VERSION] = "7",    [NONCE] = "0",       [NONCE_VERSION] = "0", [NOW] = "1000001",
    };
    memcpy(values, honest, sizeof honest);
    if (told)
        values[told->column] = told->value;
}

/* The answer to packet 1. */
static bool say_locked(fake_postgresql *f, int client, const char *asks, const char *const values[VALUES])
{
    const char *const last[] = {values[NOW], "500ms", "on"};
    const bool has_waiters = strstr(asks, "invited") != NULL;
    pg_speech s = {.length = 0};
    pg_say_columns(&s, COLUMNS);
    pg_say_row(&s, COLUMNS, values);
    pg_say_complete(&s);
    if (has_waiters) {
        pg_say_columns(&s, 6);
        pg_say_complete(&s);
    }
    pg_say_one_row(&s, 3, last);
    return fake_pg_say(f, client, &s);
}

static bool say_done(fake_postgresql *f, int client)
{
    pg_speech s = {.length = 0};
    pg_say_complete(&s);
    pg_say_ready(&s);
    return fake_pg_say(f, client, &s);
}

static bool say_look(fake_postgresql *f, int client)
{
    pg_speech s = {.length = 0};
    pg_say_look(&s);
    return fake_pg_say(f, client, &s);
}

static bool answer_row(fake_postgresql *f, int client, fake_pg_statement statement, const char *asks)
{
    const char *values[VALUES];
    if (statement == FAKE_PG_LOOK)
        return say_look(f, client);
    if (statement == FAKE_PG_OTHER)
        return say_done(f, client);
    fill_row(f->user, values);
    return say_locked(f, client, asks, values);
}

/* The fake can also be honest: then there is a grant. */
static void about_honest(void **state)
{
    fake = (fake_postgresql){.answer = answer_row};
    assert_int_equal(try_lock("honest"), 0);
}

static void about_lies(void **state)
{
    static const lie lies[] = {
        {"another mutex", MUTEX, "invoices"},
        {"no mutex", MUTEX, NULL},
        {"a mutex with an escape", MUTEX, "\033[31morders"},
        {"no owner", OWNER, NULL},
        {"null as the token", VERSION, NULL},
        {"a token below zero", VERSION, "-7"},
        {"the last token", VERSION, "9223372036854775807"},
        {"a token too large", VERSION, "99999999999999999999"},
        {"a word as the token", VERSION, "seven"},
        {"no end", TRANSITION_AT, NULL},
        {"a word as the end", TRANSITION_AT, "never"},
        {"an end after all time", TRANSITION_AT, "9223372036854775807"},
        {"no clock", NOW, NULL},
        {"a clock at the end of time", NOW, "9223372036854775807"},
        {"a clock before time", NOW, "-9223372036854775808"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        fake = (fake_postgresql){.answer = answer_row, .user = &lies[i]};
        assert_no_grant(lies[i].what);
    }
}

/* --- results of another shape ------------------------------------------------------------------------------- */

typedef bool (*saying)(fake_postgresql *f, int client, const char *const values[VALUES]);

static bool say_message(fake_postgresql *f, int client, char kind, const void *bytes, size_t length)
{
    pg_speech s = {.length = 0};
    pg_say(&s, kind, bytes, length);
    return fake_pg_say(f, client, &s);
}

/* The same row, so often. */
static bool say_rows_of(fake_postgresql *f, int client, const char *const values[VALUES], unsigned count)
{
    pg_speech s = {.length = 0};
    pg_say_columns(&s, COLUMNS);
    for (unsigned i = 0; i < count; i++)
        pg_say_row(&s, COLUMNS, values);
    return fake_pg_say(f, client, &s);
}

static bool say_no_rows(fake_postgresql *f, int client, const char *const values[VALUES])
{
    return say_rows_of(f, client, values, 0) && say_done(f, client);
}

static bool say_two_rows(fake_postgresql *f, int client, const char *const values[VALUES])
{
    return say_rows_of(f, client, values, 2) && say_done(f, client);
}

/* The row is there, and the commit fails. */
static bool say_rolled_back(fake_postgresql *f, int client, const char *const values[VALUES])
{
    pg_speech s = {.length = 0};
    pg_say_complete(&s);
    pg_say_error(&s, 'E', "40001", "not\033[31m to be");
    pg_say_ready(&s);
    return say_rows_of(f, client, values, 1) && fake_pg_say(f, client, &s);
}

/* The row is there, and whether it was committed is never said. */
static bool say_half(fake_postgresql *f, int client, const char *const values[VALUES])
{
    say_rows_of(f, client, values, 1);
    return false;
}

/* Now the client is to send a file, for ever. */
static bool say_copy_in(fake_postgresql *f, int client, const char *const values[VALUES])
{
    static const char text_of_one_column[] = {0, 0, 1, 0, 0};
    return say_message(f, client, 'G', text_of_one_column, sizeof text_of_one_column) && !fake_pg_gone(f, client, 5000);
}

/* libpq makes room for all of it at once; AddressSanitizer would take its time to watch over a gigabyte. */
static bool say_much(fake_postgresql *f, int client, const char *const values[VALUES])
{
    pg_speech s = {.length = 0};
    pg_say_columns(&s, COLUMNS);
    pg_claim(&s, 'D', 32 << 20, "\0\14", 2);
    return fake_pg_say(f, client, &s) && !fake_pg_gone(f, client, 5000);
}

static bool say_slowly(fake_postgresql *f, int client, const char *const values[VALUES])
{
    static const char row[] = {'T', 0, 0, 0, 100, 0, 12};
    for (size_t i = 0; i < sizeof row; i++)
        if (!fake_pg_send(f, client, row + i, 1) || fake_pg_gone(f, client, 100))
            return false;
    return !fake_pg_gone(f, client, 5000);
}

static bool say_never(fake_postgresql *f, int client, const char *const values[VALUES])
{
    return !fake_pg_gone(f, client, 5000);
}

static bool flood(fake_postgresql *f, int client, char type, const void *bytes, size_t size)
{
    while (say_message(f, client, type, bytes, size)) {
    }
    return false;
}

static bool say_notices(fake_postgresql *f, int client, const char *const values[VALUES])
{
    char notice[1000];
    memset(notice, 'w', sizeof notice);
    memcpy(notice, "SWARNING\0C01000\0M", 17);
    notice[sizeof notice - 2] = notice[sizeof notice - 1] = '\0';
    return flood(f, client, 'N', notice, sizeof notice);
}

static bool say_settings(fake_postgresql *f, int client, const char *const values[VALUES])
{
    char text[1000];
    for (int i = 0;; i++) {
        snprintf(text, sizeof text, "setting_%09d_%0*d", i, (int)sizeof text - 20, 0);
        text[17] = '\0'; /* a name, and its value */
        if (!say_message(f, client, 'S', text, sizeof text))
            return false;
    }
}

static bool say_rows(fake_postgresql *f, int client, const char *const values[VALUES])
{
    pg_speech s = {.length = 0};
    pg_say_row(&s, COLUMNS, values);
    say_rows_of(f, client, values, 0);
    while (fake_pg_say(f, client, &s)) {
    }
    return false;
}

typedef struct speech {
    const char *what;
    saying say;
} speech;

static bool answer_speech(fake_postgresql *f, int client, fake_pg_statement statement, const char *asks)
{
    const char *values[VALUES];
    if (statement == FAKE_PG_LOOK)
        return say_look(f, client);
    fill_row(NULL, values);
    return ((const speech *)f->user)->say(f, client, values);
}

/* The same, already when the tables are looked at. */
static bool answer_at_once(fake_postgresql *f, int client, fake_pg_statement statement, const char *asks)
{
    return answer_speech(f, client, statement == FAKE_PG_LOOK ? FAKE_PG_OTHER : statement, asks);
}

static const speech speeches[] = {
    {"no rows", say_no_rows},         {"two rows", say_two_rows}, {"rolled back", say_rolled_back},
    {"half an answer", say_half},     {"copy in", say_copy_in},   {"a lot to come", say_much},
    {"a byte at a time", say_slowly}, {"silence", say_never},     {"notices", say_notices},
    {"settings", say_settings},       {"rows", say_rows},
};

static void about_answers(void **state)
{
    for (size_t i = 0; i < sizeof speeches / sizeof *speeches; i++) {
        fake = (fake_postgresql){.answer = answer_speech, .user = &speeches[i]};
        assert_no_grant(speeches[i].what);
        fake = (fake_postgresql){.answer = answer_at_once, .user = &speeches[i]};
        assert_no_grant(speeches[i].what);
    }
}

/* --- greetings ------------------------------------------------------------------------------------------------- */

static bool greet_silently(fake_postgresql *f, int client)
{
    return say_never(f, client, NULL);
}

/* It lets us in, and then never gets to the point. */
static bool greet_without_end(fake_postgresql *f, int client)
{
    say_message(f, client, 'R', "\0\0\0", 4);
    return say_settings(f, client, NULL);
}

static bool greet_with_notices(fake_postgresql *f, int client)
{
    say_message(f, client, 'R', "\0\0\0", 4);
    return say_notices(f, client, NULL);
}

static bool refuse(fake_postgresql *f, int client)
{
    pg_speech s = {.length = 0};
    pg_say_error(&s, 'E', "28P01", "\033[31mwho are you\r\n\a");
    fake_pg_say(f, client, &s);
    return false;
}

static void about_greetings(void **state)
{
    static const struct {
        const char *what;
        bool (*greet)(fake_postgresql *f, int client);
    } greetings[] = {
        {"a silent greeting", greet_silently},
        {"settings without end", greet_without_end},
        {"notices without end", greet_with_notices},
        {"a refusal with escapes", refuse},
    };
    for (size_t i = 0; i < sizeof greetings / sizeof *greetings; i++) {
        fake = (fake_postgresql){.greet = greetings[i].greet, .answer = answer_row};
        assert_no_grant(greetings[i].what);
    }
}

/* Whoever talks on while we connect is hung up on because of that, and not because time runs out. */
static void greeting_is_bounded(void **state)
{
    char url[128];
    simba_client *client;
    simba_locker *locker;
    simba_error err = {0};
    ref_scene("a greeting with a bound");
    ref_watchdog(30);
    fake = (fake_postgresql){.greet = greet_with_notices, .answer = answer_row};
    fake_postgresql_start(&fake);
    snprintf(url, sizeof url, "postgresql://app@127.0.0.1:%d/simba?sslmode=disable&connect-timeout=20s&ttl=60s",
             fake.port);
    assert_int_equal(simba_client_open(url, NULL, &err, &client), 0);
    assert_int_equal(simba_locker_new(client, "orders", NULL, &err, &locker), 0);
    assert_int_equal(simba_locker_acquire(locker, ref_scaled_ms(20000), &err), SIMBA_ECORRUPT);
    simba_locker_free(locker);
    assert_int_equal(simba_client_close(client), 0);
    fake_postgresql_stop(&fake);
    ref_watchdog(0);
}

static bool answer_never(fake_postgresql *f, int client, fake_pg_statement statement, const char *asks)
{
    return say_never(f, client, NULL);
}

/* The first of two hosts takes connections and is silent, at once or after the login: it gets its share of the time, and then the
 * other one is tried. */
static void silent_host(void **state)
{
    static fake_postgresql silent;
    for (int is_let_in = 0; is_let_in < 2; is_let_in++) {
        char url[256];
        simba_client *client;
        simba_locker *locker;
        simba_error err = {0};
        ref_scene("silent host");
        ref_watchdog(60);
        silent = is_let_in ? (fake_postgresql){.answer = answer_never} : (fake_postgresql){.greet = greet_silently};
        fake = (fake_postgresql){.answer = answer_row};
        fake_postgresql_start(&silent);
        fake_postgresql_start(&fake);
        snprintf(url, sizeof url, "postgresql://app@127.0.0.1:%d,127.0.0.1:%d/simba?sslmode=disable%s", silent.port,
                 fake.port, is_let_in ? "" : "&connect-timeout=400ms");
        assert_int_equal(simba_client_open(url, NULL, &err, &client), 0);
        assert_int_equal(simba_locker_new(client, "orders", NULL, &err, &locker), 0);
        const int64_t begun_ms = ref_now_ms();
        if (simba_locker_acquire(locker, ref_scaled_ms(20000), &err) < 0)
            fail_msg("%s", err.text);
        if (!is_let_in)
            assert_in_range(ref_now_ms() - begun_ms, 190, 400 + SLACK_MS);
        assert_true(atomic_load(&silent.connections) > 0);
        simba_locker_free(locker);
        assert_int_equal(simba_client_close(client), 0);
        fake_postgresql_stop(&fake);
        fake_postgresql_stop(&silent);
        ref_watchdog(0);
    }
}

static atomic_int acquires;

/* Somebody else owns the mutex when it is asked for first. LISTEN is answered, and then the mutex is released: both come by one
 * packet. */
static bool release_with_answer(fake_postgresql *f, int client, fake_pg_statement statement, const char *asks)
{
    static const char both[] = "C\0\0\0\013LISTEN\0Z\0\0\0\005IA\0\0\0\023\0\0\0\001c\0001 orders";
    static const lie held = {NULL, OWNER, "somebody else"};
    const char *values[VALUES];
    if (statement == FAKE_PG_LOOK)
        return say_look(f, client);
    if (statement == FAKE_PG_OTHER)
        return strstr(asks, "listen") ? fake_pg_send(f, client, both, sizeof both) : say_done(f, client);
    const bool is_granted = atomic_fetch_add(&acquires, 1) > 0;
    fill_row(is_granted ? NULL : &held, values);
    values[TTL_AT] = values[TRANSITION_AT] = is_granted ? "0" : "9000000";
    return say_locked(f, client, asks, values);
}

/* A notification may arrive right behind the answer to what the listening connection was asked. It is heard at once. */
static void notification_behind_an_answer(void **state)
{
    fake = (fake_postgresql){.answer = release_with_answer};
    atomic_store(&acquires, 0);
    assert_int_equal(try_lock("a release right behind an answer"), 0);
    assert_in_range(atomic_load(&acquires), 2, 3); /* and the release */
}

static bool ask_for_password(fake_postgresql *f, int client)
{
    return say_message(f, client, 'R', "\0\0\0\3", 4) && !fake_pg_gone(f, client, 5000);
}

/* Without TLS nobody gets the password by asking for it. */
static void clear_password(void **state)
{
    if (PQlibVersion() < 160000)
        skip();
    fake = (fake_postgresql){.greet = ask_for_password, .answer = answer_row};
    assert_no_grant("a password in clear");
    assert_false(fake_has_heard(&fake.ear, SECRET));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(about_honest),        cmocka_unit_test(about_lies),
        cmocka_unit_test(about_answers),       cmocka_unit_test(about_greetings),
        cmocka_unit_test(greeting_is_bounded), cmocka_unit_test(silent_host),
        cmocka_unit_test(clear_password),      cmocka_unit_test(notification_behind_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
