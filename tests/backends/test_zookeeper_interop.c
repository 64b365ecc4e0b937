/* A fleet of two kinds: Curator's LeaderLatch in a Java process and a contender of ours hand the same mutex back and forth,
 * hundreds of times. Whoever leads makes a file that must not exist and removes it before it leaves, so two at once are seen
 * by the file system; and each sees the other as the owner, by its id. */
#include <fcntl.h>
#include <signal.h>
#include <simba.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cm.h"
#include "lib/referee.h"
#include "lib/server.h"

#define JARS "/usr/share/java/"
#define CLASSES                                                                                                        \
    JARS "zookeeper.jar:" JARS "slf4j-simple.jar:" JARS "guava.jar:" JARS "curator-client.jar:" JARS                   \
         "curator-framework.jar:" JARS "curator-recipes.jar"
#define LONG_MS (ref_scaled_ms(20000))

enum { ROUNDS = 75 }; /* of two hand-overs, for each name */

static server zookeeper;
static char file[96];
static pid_t peer;
static FILE *to_peer, *from_peer;
static simba_client *client;
static simba_contender *contender;
static bool leads;

/* --- the peer ----------------------------------------------------------------------------------------- */

static bool compile_peer(void)
{
    char command[1024];
    snprintf(command, sizeof command, "javac -d %s -cp " CLASSES " %s/backends/CuratorPeer.java", zookeeper.folder,
             SIMBA_TEST_SOURCES);
    return system(command) == 0; // NOLINT(cert-env33-c): made of what is ours
}

static void start_peer(const char *mutex)
{
    char path[64];
    char class_path[600];
    char address[32];
    int to[2];
    int from[2];
    snprintf(path, sizeof path, "/simba/%s", mutex); /* as Simba on the JVM has it */
    snprintf(class_path, sizeof class_path, "%s:" CLASSES, zookeeper.folder);
    snprintf(address, sizeof address, "127.0.0.1:%d", zookeeper.port);
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
        abort();
    peer = fork();
    if (peer == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        execlp("java", "java", "-XX:TieredStopAtLevel=1", "-Xmx128m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
               "-cp", class_path, "CuratorPeer", address, path, "peer", file, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    to_peer = fdopen(to[1], "w");
    from_peer = fdopen(from[0], "r");
}

static void tell_peer(const char *word)
{
    fprintf(to_peer, "%s\n", word);
    fflush(to_peer);
}

/* The watchdog ends this if the peer says nothing. */
static void expect_from_peer(const char *text)
{
    char line[256] = "";
    if (!fgets(line, sizeof line, from_peer))
        fail_msg("the peer is gone");
    line[strcspn(line, "\n")] = '\0';
    assert_string_equal(line, text);
}

/* --- ours ---------------------------------------------------------------------------------------------- */

static void on_acquired(simba_contender *self, const simba_state *state, void *user)
{
    const int fd = open(file, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (fd < 0)
        REF_COMPLAIN("two lead at once");
    else
        close(fd);
    ref_lock();
    leads = true;
    ref_unlock();
}

static void on_released(simba_contender *self, const simba_state *state, simba_reason reason, void *user)
{
    if (reason != SIMBA_REASON_STOPPED)
        REF_COMPLAIN("released: %s", simba_reason_name(reason));
    unlink(file);
    ref_lock();
    leads = false;
    ref_unlock();
}

static bool sees_as_owner(const char *id)
{
    simba_owner owner;
    return simba_contender_owner(contender, &owner) == 0 && simba_owner_is(&owner, id);
}

/* `*state` is the mutex. */
static int setup(void **state)
{
    const char *mutex = *state;
    char url[64];
    simba_error err = {0};
    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    options.id = "ours";
    options.on_acquired = on_acquired;
    options.on_released = on_released;
    ref_watchdog(100);
    snprintf(file, sizeof file, "%s/leader", zookeeper.folder);
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d", zookeeper.port);
    if (!compile_peer())
        return -1;
    start_peer(mutex);
    if (simba_client_open(url, NULL, &err, &client) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(simba_contender_new(client, mutex, &options, &err, &contender), 0);
    return 0;
}

static int teardown(void **state)
{
    simba_contender_free(contender);
    simba_client_close(client);
    fclose(to_peer);
    fclose(from_peer);
    kill(peer, SIGKILL);
    waitpid(peer, NULL, 0);
    ref_watchdog(0);
    return 0;
}

static void hand_over(void **state)
{
    uint64_t token = 0;
    ref_scene("hand-over between the two");
    assert_int_equal(simba_contender_start(contender), 0);
    assert_true(REF_WITHIN(LONG_MS, leads));
    for (int i = 0; i < ROUNDS; i++) {
        assert_true(simba_contender_token(contender) > token);
        token = simba_contender_token(contender);
        tell_peer("start");
        expect_from_peer("started");
        tell_peer("owner");
        expect_from_peer("owner ours");
        assert_int_equal(simba_contender_stop(contender), 0);
        expect_from_peer("leads");
        assert_int_equal(simba_contender_start(contender), 0);
        assert_true(REF_WITHIN(LONG_MS, sees_as_owner("peer")));
        tell_peer("owner");
        expect_from_peer("owner peer");
        tell_peer("stop");
        expect_from_peer("left");
        assert_true(REF_WITHIN(LONG_MS, leads));
    }
    assert_int_equal(simba_contender_stop(contender), 0);
    assert_int_equal(ref_complaints(), 0);
}

int main(void)
{
    /* A name whose node lies deeper, and with what looks like an escape, is the same mutex on both sides too. */
    static char plain[] = "orders";
    static char special[] = "orders/eu%2F1";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate_setup_teardown(hand_over, setup, teardown, plain),
        cmocka_unit_test_prestate_setup_teardown(hand_over, setup, teardown, special),
    };
    if (!server_has_zookeeper() || !server_has("javac") || access(JARS "curator-recipes.jar", R_OK) != 0) {
        puts("1..0 # SKIP a JDK, ZooKeeper or Curator (libcurator-recipes-java) is not installed");
        return 0;
    }
    signal(SIGPIPE, SIG_IGN);
    server_init(&zookeeper);
    if (!server_start_zookeeper(&zookeeper)) {
        puts("Bail out! ZooKeeper does not start");
        return 1;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    server_fini(&zookeeper);
    return failed;
}
