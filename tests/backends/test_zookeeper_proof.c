/* What a client believes about its session, against a server that the test plays: that it may believe no more than what most
 * servers would have agreed to is what S1 rests on. The rules are tested in unit.zk_liveness; here is whether they are fed
 * with the truth. */
#include <signal.h>
#include <simba.h>
#include <stdio.h>

#include "lib/cm.h"
#include "lib/fake_zookeeper.h"
#include "lib/referee.h"

#include "client/client.h"
#include "stores/zookeeper/zookeeper.h"

#define LONG_MS (ref_scaled_ms(20000))

enum { SESSION_MS = 800 };

static fake_zookeeper fake;
static simba_client *client;

static void ignore_row(const simba_listing *row, void *user)
{
}

static void begin(fake_odd odd)
{
    char url[96];
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    options.op_timeout_ms = 300;
    ref_watchdog(60);
    odd.timeout_ms = SESSION_MS;
    fake_zookeeper_start(&fake, odd);
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d?session-timeout=%dms", fake.port, SESSION_MS);
    assert_int_equal(simba_client_open(url, &options, NULL, &client), 0);
    simba_client_list(client, NULL, ignore_row, NULL, NULL); /* so that there is a session */
}

static void end(void)
{
    simba_client_close(client);
    fake_zookeeper_stop(&fake);
    ref_watchdog(0);
}

static zk_liveness look(void)
{
    simba__lock(client);
    const zk_liveness live = ((zk_store *)client->store)->session.live;
    simba__unlock(client);
    return live;
}

/* The server answers every handshake, and no beat: a leader that was replaced. Nothing but the first handshake counts,
 * however many connections there are, and whatever becomes of the beats. */
static void beats_are_lost(void **state)
{
    begin((fake_odd){.request = FAKE_SET, .manner = FAKE_SILENCE});
    const zk_liveness first = look();
    assert_true(first.has_session);
    assert_true(REF_WITHIN(LONG_MS, look().connection >= 3 && look().sent > 0));
    assert_true(look().proven.ns == first.proven.ns);
    assert_true(atomic_load(&client->session_until_ns) <= first.proven.ns + first.timeout_ns);
    end();
}

/* The server agrees to every beat. What holders go by is what is proven, and that is a quarter of the timeout old. */
static void beats_are_agreed(void **state)
{
    begin((fake_odd){.request = FAKE_NEVER});
    assert_true(REF_WITHIN(LONG_MS, look().answered >= 5));
    simba__lock(client);
    const zk_liveness live = ((zk_store *)client->store)->session.live;
    const int64_t until_ns = atomic_load(&client->session_until_ns);
    simba__unlock(client);
    assert_true(until_ns <= live.proven.ns + live.timeout_ns);
    assert_true(until_ns > live.proven.ns + live.timeout_ns * 9 / 10);
    assert_true(live.proven.ns + live.timeout_ns / 4 <= live.beats[(live.answered - 1) % ZK_BEATS].ns);
    assert_true(live.proven.ns > live.attempt.ns);
    end();
}

/* With its next handshake a client says what it has seen, so that a server which lags behind refuses it. */
static void what_was_seen_is_told(void **state)
{
    begin((fake_odd){.request = FAKE_NEVER});
    assert_true(REF_WITHIN(LONG_MS, look().answered >= 1));
    assert_true(fake.seen == 0);
    simba__lock(client);
    simba__link_fail(&((zk_store *)client->store)->session.link, SIMBA_EUNAVAILABLE, "the test breaks it");
    simba__unlock(client);
    assert_true(REF_WITHIN(LONG_MS, look().connection == 2 && look().answered >= 1));
    assert_true(fake.seen == 9);
    end();
}

/* A leader that was replaced and does not know it answers a sync and shows an old note. It cannot have anybody agree to a write, so
 * nobody believes its notes. */
static void note_of_a_replaced_leader_is_not_believed(void **state)
{
    char url[64];
    simba_note note = SIMBA_NOTE_INIT;
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    options.op_timeout_ms = 300; /* before the first beat, which would not be answered either */
    ref_watchdog(60);
    fake_zookeeper_start(&fake, (fake_odd){.request = FAKE_SET, .manner = FAKE_SILENCE});
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d?session-timeout=10s", fake.port);
    assert_int_equal(simba_client_open(url, &options, NULL, &client), 0);
    const int read =
        simba_client_note(client, "m", NULL, &note); /* what it shows is no note, should that be looked at */
    assert_true(read == SIMBA_ETIMEDOUT || read == SIMBA_EUNAVAILABLE);
    assert_int_not_equal(simba_client_list(client, NULL, ignore_row, NULL, NULL), 0);
    end();
}

#define STAT(time)                                                                                                     \
    "\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0\5" time time                                                                       \
    "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
#define NOTE                                                                                                           \
    "\0\0\0\7"                                                                                                         \
    "1 5 1\nx"

/* A server says that a note was written at the end of all times, or before them. Its clock is heeded; the time since then does not
 * overflow. */
static void times_are_bounded(void **state)
{
    static const char last[] = NOTE STAT("\x7f\xff\xff\xff\xff\xff\xff\xff");
    static const char first[] = NOTE STAT("\x80\0\0\0\0\0\0\0");
    simba_note note = SIMBA_NOTE_INIT;
    for (unsigned i = 0; i < 2; i++) {
        begin((fake_odd){.request = FAKE_GET, .body = i ? last : first, .size = sizeof last - 1});
        for (unsigned n = 0; n < 3; n++)
            assert_int_equal(simba_client_note(client, "m", NULL, &note), 0);
        assert_int_equal(note.length, 1);
        assert_true(note.written_at_ms == (i ? INT64_C(253402300799999) : 0));
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(beats_are_lost),        cmocka_unit_test(beats_are_agreed),
        cmocka_unit_test(what_was_seen_is_told), cmocka_unit_test(note_of_a_replaced_leader_is_not_believed),
        cmocka_unit_test(times_are_bounded),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
