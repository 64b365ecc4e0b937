/* The ZooKeeper store beside Curator, on the same server: an uncontended lock and unlock, and hand-overs of one mutex
 * for which sixteen sessions contend. The two take turns within one run, because the speed of a machine varies. Then a
 * thousand waiters stand in one queue, and the server's own count says how many watches a hand-over fires. The
 * benchmark starts the server and Curator, and ends them. It needs a JDK, and ZooKeeper and Curator in /usr/share/java;
 * without them there is nothing to compare with. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define JARS "/usr/share/java/"
#define CLASSES                                                                                                        \
    JARS "zookeeper.jar:" JARS "slf4j-simple.jar:" JARS "guava.jar:" JARS "curator-client.jar:" JARS                   \
         "curator-framework.jar:" JARS "curator-recipes.jar"

enum {
    PAIRS = 64,
    ROUNDS_MAX = 1000,
    FIGHTS = 20,
    FIGHT_MS = 300,
    FIGHTERS = 16,
    WAITERS = 1000,
    WAITING_CLIENTS = 10,
    HAND_OVERS = 200
};

static bool quick;
static int port;
static char url[64];
static pid_t server, curator;
static FILE *to_curator, *from_curator;

/* --- the others ----------------------------------------------------------------------------------------- */

static pid_t run(const char *const *argv, int in, int out)
{
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0)
            _exit(126);
        execvp(argv[0], (char *const *)(void *)argv);
        _exit(127);
    }
    return pid;
}

/* Ask the server one of its words of four letters; "": no answer. */
static void ask(const char *word, char *text, size_t size)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    size_t length = 0;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0 && write(fd, word, strlen(word)) > 0)
        for (ssize_t got = 1; got > 0 && length<size - 1; length += got> 0 ? (size_t)got : 0)
            got = read(fd, text + length, size - 1 - length);
    close(fd);
    text[length] = '\0';
}

static void start_server(void)
{
    char path[600];
    char text[2000];
    port = 20000 + getpid() % 20000;
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d", port);
    snprintf(path, sizeof path, "%s/zoo.cfg", bench_temp_dir());
    FILE *config = fopen(path, "w");
    if (!config)
        bench_fail(path, "cannot be written");
    fprintf(config,
            "tickTime=2000\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
            "4lw.commands.whitelist=*\nmaxClientCnxns=0\n",
            bench_temp_dir(), port);
    fclose(config);
    const char *const argv[] = {"java",
                                "-Xmx512m",
                                "-XX:+UseSerialGC",
                                "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
                                "-cp",
                                CLASSES,
                                "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                                path,
                                NULL};
    server = run(argv, STDIN_FILENO, STDERR_FILENO);
    for (int i = 0; i < 1000; i++) {
        ask("srvr", text, sizeof text);
        if (strstr(text, "Mode: "))
            return;
        bench_sleep_ms(10);
    }
    bench_fail("ZooKeeper", "does not start");
}

static void start_curator(void)
{
    char command[1400];
    char class_path[1000];
    char address[32];
    int to[2];
    int from[2];
    snprintf(command, sizeof command, "javac -d %s -cp " CLASSES " " BENCH_SOURCES "/CuratorBench.java",
             bench_temp_dir());
    // NOLINTNEXTLINE(cert-env33-c): made of what is ours
    if (system(command) != 0 || pipe(to) != 0 || pipe(from) != 0)
        bench_fail("Curator", "cannot be compiled");
    snprintf(class_path, sizeof class_path, "%s:" CLASSES, bench_temp_dir());
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    const char *const argv[] = {
        "java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", class_path, "CuratorBench", address, NULL};
    curator = run(argv, to[0], from[1]);
    close(to[0]);
    close(from[1]);
    to_curator = fdopen(to[1], "w");
    from_curator = fdopen(from[0], "r");
}

static double curator_does(const char *what, long number)
{
    double answer;
    fprintf(to_curator, "%s %ld\n", what, number);
    fflush(to_curator);
    if (fscanf(from_curator, "%lf", &answer) != 1)
        bench_fail("Curator", "gives no answer");
    return answer;
}

static void stop_others(void)
{
    fclose(to_curator);
    kill(curator, SIGKILL);
    kill(server, SIGKILL);
    waitpid(curator, NULL, 0);
    waitpid(server, NULL, 0);
}

/* --- uncontended ---------------------------------------------------------------------------------------- */

static int by_value(const void *left, const void *right)
{
    const double x = *(const double *)left;
    const double y = *(const double *)right;
    return (x > y) - (x < y);
}

/* Pairs per second in the round at the fastest tenth. */
static double quiet_rate(double *rounds_ns, size_t count)
{
    qsort(rounds_ns, count, sizeof *rounds_ns, by_value);
    return PAIRS * 1e9 / rounds_ns[count / 10];
}

static double our_round(simba_locker *locker)
{
    simba_error error;
    const int64_t start_ns = bench_now_ns();
    for (int i = 0; i < PAIRS; i++) {
        bench_check(simba_locker_acquire(locker, 5000, &error), "acquire", &error);
        bench_check(simba_locker_release(locker, &error), "release", &error);
    }
    return (double)(bench_now_ns() - start_ns);
}

static void measure_uncontended(void)
{
    static double ours[ROUNDS_MAX];
    static double theirs[ROUNDS_MAX];
    simba_client *client;
    simba_locker *locker;
    simba_error error;
    bench_check(simba_client_open(url, NULL, &error, &client), url, &error);
    bench_check(simba_locker_new(client, "bench", NULL, &error, &locker), "locker", &error);
    /* Let both virtual machines warm up. */
    curator_does("pairs", quick ? 500 : 3000);
    our_round(locker);
    size_t count = 0;
    const int64_t until_ns = bench_now_ns() + (quick ? INT64_C(2000000000) : INT64_C(6000000000));
    do {
        ours[count] = our_round(locker);
        theirs[count++] = curator_does("pairs", PAIRS);
    } while (bench_now_ns() < until_ns && count < ROUNDS_MAX);
    simba_locker_free(locker);
    simba_client_close(client);
    const double our_rate = quiet_rate(ours, count);
    const double their_rate = quiet_rate(theirs, count);
    bench_add("Curator's InterProcessMutex", their_rate, 0, "pairs/s", BENCH_NO_GOAL, 0);
    bench_add("lock + unlock", our_rate, 0, "pairs/s", BENCH_NO_GOAL, 0);
    bench_add("ratio of the two", our_rate / their_rate, 2, "", BENCH_AT_LEAST, 1.3);
}

/* --- a fight -------------------------------------------------------------------------------------------- */

static atomic_int last, inside, breaches;
static atomic_long handed;
static atomic_long until_ms;

static void *fight(void *arg)
{
    simba_locker *locker = arg;
    simba_error error;
    const int me = (int)((uintptr_t)arg >> 4);
    while (bench_now_ns() / 1000000 < until_ms) {
        bench_check(simba_locker_acquire(locker, 30000, &error), "acquire", &error);
        breaches += atomic_fetch_add(&inside, 1) != 0;
        handed += atomic_exchange(&last, me) != me;
        inside--;
        bench_check(simba_locker_release(locker, &error), "release", &error);
    }
    return NULL;
}

static double our_fight(simba_locker **lockers, long ms)
{
    pthread_t threads[FIGHTERS];
    handed = 0;
    until_ms = bench_now_ns() / 1000000 + ms;
    for (int i = 0; i < FIGHTERS; i++)
        if (pthread_create(&threads[i], NULL, fight, lockers[i]) != 0)
            bench_fail("thread", "none to be had");
    for (int i = 0; i < FIGHTERS; i++)
        pthread_join(threads[i], NULL);
    return (double)handed;
}

static void measure_fight(void)
{
    simba_client *clients[FIGHTERS];
    simba_locker *lockers[FIGHTERS];
    simba_error error;
    for (int i = 0; i < FIGHTERS; i++) {
        bench_check(simba_client_open(url, NULL, &error, &clients[i]), url, &error);
        bench_check(simba_locker_new(clients[i], "fight", NULL, &error, &lockers[i]), "locker", &error);
    }
    double ours[FIGHTS];
    double theirs[FIGHTS];
    const int rounds = quick ? FIGHTS / 4 : FIGHTS;
    our_fight(lockers, FIGHT_MS);
    curator_does("fight", quick ? 1000 : 3000);
    for (int i = 0; i < rounds; i++) {
        ours[i] = our_fight(lockers, FIGHT_MS);
        theirs[i] = curator_does("fight", FIGHT_MS);
    }
    for (int i = 0; i < FIGHTERS; i++) {
        simba_locker_free(lockers[i]);
        simba_client_close(clients[i]);
    }
    /* Take the round at the fastest tenth. */
    qsort(ours, (size_t)rounds, sizeof *ours, by_value);
    qsort(theirs, (size_t)rounds, sizeof *theirs, by_value);
    const int quiet = rounds - 1 - rounds / 10;
    const double our_rate = ours[quiet] * 1e3 / FIGHT_MS;
    const double their_rate = theirs[quiet] * 1e3 / FIGHT_MS;
    bench_add("16 sessions of Curator's fight", their_rate, 0, "hand-overs/s", BENCH_NO_GOAL, 0);
    bench_add("16 sessions of ours fight", our_rate, 0, "hand-overs/s", BENCH_NO_GOAL, 0);
    bench_add("ratio of the two", our_rate / their_rate, 2, "", BENCH_AT_LEAST, 1.5);
    bench_add("two inside at once", breaches, 0, "times", BENCH_AT_MOST, 0);
}

/* --- a thousand waiters ------------------------------------------------------------------------------------ */

/* A number of the server's, by its name in "mntr". */
static double counter(const char *name)
{
    static char text[65536];
    ask("mntr", text, sizeof text);
    const char *line = strstr(text, name);
    if (!line)
        bench_fail(name, "is no counter of this server");
    return strtod(line + strlen(name), NULL);
}

static atomic_int grants;

static void on_acquired(simba_contender *contender, const simba_state *state, void *user)
{
    (void)state;
    *(_Atomic(simba_contender *) *)user = contender;
    grants++;
}

static void await(const char *what, int grants_wanted)
{
    const int64_t until_ns = bench_now_ns() + INT64_C(60000000000);
    while (grants < grants_wanted) {
        if (bench_now_ns() > until_ns)
            bench_fail(what, "takes too long");
        bench_sleep_ms(1);
    }
}

static void measure_herd(void)
{
    static simba_contender *contenders[WAITERS];
    static _Atomic(simba_contender *) leader;
    simba_client *clients[WAITING_CLIENTS];
    simba_error error;
    for (int i = 0; i < WAITING_CLIENTS; i++)
        bench_check(simba_client_open(url, NULL, &error, &clients[i]), url, &error);
    for (int i = 0; i < WAITERS; i++) {
        simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
        options.on_acquired = on_acquired;
        options.user = &leader;
        bench_check(simba_contender_new(clients[i % WAITING_CLIENTS], "herd", &options, &error, &contenders[i]),
                    "contender", &error);
        bench_check(simba_contender_start(contenders[i]), "start", NULL);
    }
    await("the first of many", 1);
    const double watches = WAITERS - 1;
    for (int i = 0; i < 6000 && counter("zk_watch_count") < watches; i++)
        bench_sleep_ms(10);
    bench_sleep_ms(200); /* let the leader set its own watch */
    const double fired = counter("zk_sum_node_deleted_watch_count");
    const int64_t start_ns = bench_now_ns();
    for (int i = 1; i <= HAND_OVERS; i++) {
        bench_check(simba_contender_stop(leader), "stop", NULL);
        await("a hand-over", i + 1);
    }
    const double ms = (double)(bench_now_ns() - start_ns) / 1e6;
    bench_sleep_ms(100);
    const double each = (counter("zk_sum_node_deleted_watch_count") - fired) / HAND_OVERS;
    for (int i = WAITERS - 1; i >= 0; i--)
        simba_contender_free(contenders[i]); /* from the end, so that nobody leads in between */
    for (int i = 0; i < WAITING_CLIENTS; i++)
        simba_client_close(clients[i]);
    bench_add("a hand-over with 1,000 waiters", ms / HAND_OVERS, 2, "ms", BENCH_NO_GOAL, 0);
    bench_add("watches that one fires", each, 2, "", BENCH_AT_MOST, 1.01);
}

int main(int argc, char **argv)
{
    quick = bench_wants_quick(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 0); /* this measures the clients, not the disk */
    // NOLINTNEXTLINE(cert-env33-c): a fixed word
    if (access(JARS "curator-recipes.jar", R_OK) != 0 || system("command -v javac >/dev/null") != 0)
        bench_fail("bench_zookeeper", "needs javac, ZooKeeper and Curator (Debian: libcurator-recipes-java)");
    start_server();
    start_curator();
    measure_uncontended();
    measure_fight();
    measure_herd();
    stop_others();
    return bench_print("ZooKeeper on the same machine, beside Curator");
}
