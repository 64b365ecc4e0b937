/* The Kubernetes store on the tests' own API server: what it stores, how it shares it with client-go, and what it makes of answers that
 * are lost, late, stale, hostile, or no. */
#include <jansson.h>
#include <simba.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/cm.h"
#include "lib/fake_kubernetes.h"
#include "lib/referee.h"

static fake_kubernetes fake;
static char folder[] = "/tmp/simba-kubernetes-XXXXXX";

enum { LEASE_MS = 600, LONG_LEASE_MS = 3000 };

static int64_t op_timeout_ms;

static int setup(void **state)
{
    (void)state;
    memset(&fake, 0, sizeof fake);
    op_timeout_ms = 8000;
    fake_kubernetes_start(&fake, 0, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fake_kubernetes_stop(&fake);
    return 0;
}

/* --- tools -------------------------------------------------------------------------------------------- */

static simba_client *open_at(const char *host, const char *query)
{
    char url[512];
    simba_error err = {0};
    simba_client *client = NULL;
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    options.op_timeout_ms = ref_scaled_ms(op_timeout_ms);
    snprintf(url, sizeof url, "kubernetes://%s%s", host, query);
    if (simba_client_open(url, &options, &err, &client) < 0)
        fail_msg("%s", err.text);
    return client;
}

static simba_client *open_it(void)
{
    char host[64];
    snprintf(host, sizeof host, "127.0.0.1:%d", fake.port);
    return open_at(host, "/default?tls=no");
}

static simba_locker *make_locker(simba_client *client, const char *mutex, int64_t lease_ms)
{
    simba_locker *locker = NULL;
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    options.timing.ttl_ms = ref_scaled_ms(lease_ms * 2 / 3);
    options.timing.transition_ms = ref_scaled_ms(lease_ms / 3);
    assert_int_equal(simba_locker_new(client, mutex, &options, NULL, &locker), 0);
    return locker;
}

static void acquire(simba_locker *locker, int64_t wait_ms)
{
    simba_error err = {0};
    if (simba_locker_acquire(locker, wait_ms, &err) < 0)
        fail_msg("%s", err.text);
}

/* As another program would: directly. Returns the status. */
static int put(const char *method, const char *name, const char *body)
{
    fake_kube_request request = {.body = body, .size = strlen(body)};
    fake_kube_watch watch;
    snprintf(request.method, sizeof request.method, "%s", method);
    snprintf(request.path, sizeof request.path, "/apis/coordination.k8s.io/v1/namespaces/default/leases%s%s",
             *name ? "/" : "", name);
    snprintf(request.token, sizeof request.token, "%s", FAKE_KUBERNETES_TOKEN);
    snprintf(request.type, sizeof request.type, "%s",
             strcmp(method, "PATCH") == 0 ? "application/merge-patch+json" : "application/json");
    pthread_mutex_lock(&fake.lock);
    const fake_kube_answer answer = fake_kube_handle(&fake.objects, &request, false, &watch);
    json_decref(answer.body);
    pthread_mutex_unlock(&fake.lock);
    return answer.code;
}

/* A copy of a member of the Lease, such as "spec", "holderIdentity"; "": there is none. */
static const char *stored(const char *name, const char *group, const char *member)
{
    static char text[2048];
    char key[300];
    snprintf(key, sizeof key, "leases/default/%s", name);
    pthread_mutex_lock(&fake.lock);
    const json_t *lease = json_object_get(fake.objects.objects, key);
    const json_t *of = strcmp(group, "annotations") == 0 ? json_object_get(json_object_get(lease, "metadata"), group)
                                                         : json_object_get(lease, group);
    const json_t *value = json_object_get(of, member);
    if (json_is_integer(value))
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
    else
        snprintf(text, sizeof text, "%s", json_is_string(value) ? json_string_value(value) : "");
    pthread_mutex_unlock(&fake.lock);
    return text;
}

static unsigned asked_for(const char *method, const char *what)
{
    char text[128];
    snprintf(text, sizeof text, "%s /apis/coordination.k8s.io/v1/namespaces/default/leases%s", method, what);
    return fake_kubernetes_asked(&fake, text);
}

static unsigned asked(const char *method)
{
    return asked_for(method, "");
}

/* --- what is stored ------------------------------------------------------------------------------------ */

/* `kubectl get leases` and client-go find what they expect; an odd name has a Lease all the same. */
static void fields(void **state)
{
    (void)state;
    simba_client *client = open_it();
    simba_locker *plain = make_locker(client, "orders.eu-1", LEASE_MS);
    simba_locker *odd = make_locker(client, "Orders / \xc3\xa9", LEASE_MS);
    char token[24], grant[80];
    acquire(plain, 0);
    acquire(odd, 0);
    const char *identity = stored("orders.eu-1", "spec", "holderIdentity");
    const char *nonce = strrchr(identity, '_');
    assert_non_null(nonce);
    assert_int_equal(strlen(nonce + 1), 16);
    assert_memory_equal(identity, simba_locker_id(plain), strlen(simba_locker_id(plain)));
    snprintf(grant, sizeof grant, "%s %llu %lld", nonce + 1, (unsigned long long)simba_locker_token(plain),
             (long long)ref_scaled_ms(LEASE_MS));
    assert_string_equal(stored("orders.eu-1", "annotations", "simba/grant"), grant);
    snprintf(token, sizeof token, "%lld", (long long)(ref_scaled_ms(LEASE_MS) + 999) / 1000);
    assert_string_equal(stored("orders.eu-1", "spec", "leaseDurationSeconds"), token);
    assert_string_equal(stored("orders.eu-1", "spec", "leaseTransitions"), "1");
    const char *renewed = stored("orders.eu-1", "spec", "renewTime");
    assert_int_equal(strlen(renewed), strlen("2026-01-02T03:04:05.000006Z"));
    assert_string_equal(renewed + 26, "Z");

    const char *hashed = "simba-b42acb69b65b4a48db9e6bb4c5ac5e2e";
    char name[80] = "";
    pthread_mutex_lock(&fake.lock);
    const char *key;
    json_t *value;
    json_object_foreach(fake.objects.objects, key, value) if (strstr(key, "/simba-"))
        snprintf(name, sizeof name, "%s", strrchr(key, '/') + 1);
    pthread_mutex_unlock(&fake.lock);
    assert_int_equal(strlen(name), strlen(hashed));
    assert_string_equal(stored(name, "annotations", "simba/mutex"), "Orders / \xc3\xa9");

    snprintf(token, sizeof token, "%llu", (unsigned long long)simba_locker_token(plain));
    assert_int_equal(simba_locker_note_set(plain, "a\0b", 3, NULL), 0);
    const char *note = stored("orders.eu-1", "annotations", "simba/note");
    assert_memory_equal(note, token, strlen(token));
    assert_non_null(strstr(note, " YQBi"));
    assert_int_equal(simba_locker_release(plain, NULL), 0);
    assert_string_equal(stored("orders.eu-1", "spec", "holderIdentity"), "");
    assert_string_equal(stored("orders.eu-1", "spec", "leaseDurationSeconds"), "1");
    simba_locker_free(plain);
    simba_locker_free(odd);
    simba_client_close(client);
}

/* A holder sends one PATCH for each renewal, and its waiter nothing while nothing happens. */
static void requests(void **state)
{
    (void)state;
    simba_client *clients[2] = {open_it(), open_it()};
    simba_locker *holder = make_locker(clients[0], "m", LONG_LEASE_MS);
    simba_contender *waiter = NULL;
    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    options.timing.ttl_ms = ref_scaled_ms(2000);
    options.timing.transition_ms = ref_scaled_ms(1000);
    acquire(holder, 0);
    assert_int_equal(simba_contender_new(clients[1], "m", &options, NULL, &waiter), 0);
    assert_int_equal(simba_contender_start(waiter), 0);
    assert_true(REF_WITHIN(ref_scaled_ms(5000), asked("GET") >= 4)); /* of holder and waiter, a list, a watch */
    const unsigned patches = asked("PATCH");
    assert_true(REF_WITHIN(ref_scaled_ms(9000), asked("PATCH") >= patches + 2));
    assert_int_equal(asked("GET"), 4 + (asked("GET") > 4)); /* the first question, and after CHANGED perhaps another */
    assert_int_equal(asked("POST"), 1);
    assert_int_equal(simba_locker_release(holder, NULL), 0);
    assert_true(REF_WITHIN(ref_scaled_ms(5000), simba_contender_is_owner(waiter)));
    simba_contender_stop(waiter);
    simba_contender_free(waiter);
    simba_locker_free(holder);
    simba_client_close(clients[1]);
    simba_client_close(clients[0]);
}

/* --- beside other programs ------------------------------------------------------------------------------ */

#define GO_LEASE                                                                                                       \
    "{\"metadata\":{\"name\":\"m\"},\"spec\":{\"holderIdentity\":\"go_1f\",\"leaseDurationSeconds\":1,"                \
    "\"acquireTime\":\"2001-01-01T00:00:00.000000Z\",\"renewTime\":\"2001-01-01T00:00:00.000000Z\","                   \
    "\"leaseTransitions\":4}}"

/* A Go program holds the Lease, whatever the times say, until it was seen unchanged for as long as it lasts. */
static void beside_go(void **state)
{
    (void)state;
    simba_client *client = open_it();
    simba_locker *locker = make_locker(client, "m", LEASE_MS);
    simba_error err = {0};
    assert_int_equal(put("POST", "", GO_LEASE), 201);
    const int64_t before_ms = ref_now_ms();
    assert_int_equal(simba_locker_acquire(locker, 0, &err), SIMBA_ETIMEDOUT);
    assert_non_null(strstr(err.text, "go_1f"));
    acquire(locker, ref_scaled_ms(10000));
    assert_true(ref_now_ms() - before_ms >= 1000);
    assert_string_equal(stored("m", "spec", "leaseTransitions"), "5");

    /* It takes the Lease back, and leaves our annotations alone. */
    assert_int_equal(put("PATCH", "m", "{\"spec\":{\"holderIdentity\":\"go_1f\",\"leaseDurationSeconds\":1}}"), 200);
    assert_true(REF_WITHIN(ref_scaled_ms(5000), simba_locker_held_for_ms(locker) == 0));
    assert_int_equal(simba_client_force_release(client, "m", NULL), 0);
    assert_string_equal(stored("m", "spec", "holderIdentity"), "");
    simba_locker_free(locker);
    simba_client_close(client);
}

static simba_contender *start_waiter(simba_client *client, const char *mutex)
{
    simba_contender *waiter = NULL;
    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    options.timing.ttl_ms = 60000;
    options.timing.transition_ms = 60000;
    assert_int_equal(simba_contender_new(client, mutex, &options, NULL, &waiter), 0);
    assert_int_equal(simba_contender_start(waiter), 0);
    return waiter;
}

static bool annotate(void)
{
    static unsigned number;
    char body[80];
    snprintf(body, sizeof body, "{\"metadata\":{\"annotations\":{\"other/number\":\"%u\"}}}", number++);
    assert_int_equal(put("PATCH", "m", body), 200);
    return false;
}

/* Somebody who annotates the Lease of a dead owner all the time does not keep a waiter from it. */
static void meddled(void **state)
{
    (void)state;
    simba_client *client = open_it();
    assert_int_equal(put("POST", "", GO_LEASE), 201);
    simba_contender *waiter = start_waiter(client, "m");
    assert_true(REF_WITHIN(ref_scaled_ms(9000), annotate() || simba_contender_is_owner(waiter)));
    simba_contender_stop(waiter);
    simba_contender_free(waiter);
    simba_client_close(client);
}

/* What cannot be shared, or understood, is refused. */
static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *says;
    } bad[] = {
        {"{\"strategy\":\"OldestEmulationVersion\"}", "coordinated leader election"},
        {"{\"holderIdentity\":\"somebody\"}", "no leaseDurationSeconds"},
    };
    simba_client *client = open_it();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char body[256], name[8];
        simba_error err = {0};
        snprintf(name, sizeof name, "m%zu", i);
        snprintf(body, sizeof body, "{\"metadata\":{\"name\":\"%s\"},\"spec\":%s}", name, bad[i].spec);
        assert_int_equal(put("POST", "", body), 201);
        simba_locker *locker = make_locker(client, name, LEASE_MS);
        assert_int_equal(simba_locker_acquire(locker, 0, &err), SIMBA_ECORRUPT);
        assert_non_null(strstr(err.text, bad[i].says));
        simba_locker_free(locker);
    }
    simba_client_close(client);
}

/* Damaged annotations are no grant and no note. */
static void damaged(void **state)
{
    (void)state;
    static const char *const grants[] = {"", "1f", "000000000000001f 7", "000000000000001f 0 60000",
                                         "000000000000001f 7 x"};
    simba_client *client = open_it();
    simba_note note = SIMBA_NOTE_INIT;
    for (size_t i = 0; i < sizeof grants / sizeof *grants; i++) {
        char body[512], name[8];
        snprintf(name, sizeof name, "m%zu", i);
        snprintf(body, sizeof body,
                 "{\"metadata\":{\"name\":\"%s\",\"annotations\":{\"simba/grant\":\"%s\",\"simba/note\":\"7 1 "
                 "x\"}},\"spec\":{"
                 "\"holderIdentity\":\"me_000000000000001f\",\"leaseDurationSeconds\":60}}",
                 name, grants[i]);
        assert_int_equal(put("POST", "", body), 201);
        simba_locker *locker = make_locker(client, name, LEASE_MS);
        assert_int_equal(simba_locker_acquire(locker, 0, NULL), SIMBA_ETIMEDOUT);
        assert_int_equal(simba_client_note(client, name, NULL, &note), SIMBA_ECORRUPT);
        simba_locker_free(locker);
    }
    simba_client_close(client);
}

/* --- answers that are lost, stale, or no ---------------------------------------------------------------- */

/* Whatever happens to the first request of a kind, a caller that waits has the mutex in the end, once. */
static void faults(void **state)
{
    (void)state;
    static const fake_kube_fault all[] = {FAKE_KUBE_BROKEN, FAKE_KUBE_UNSURE, FAKE_KUBE_LOST, FAKE_KUBE_SILENT,
                                          FAKE_KUBE_STALE};
    static const char *const methods[] = {"GET", "POST", "PATCH"};
    op_timeout_ms = 1500; /* of a request that is never answered */
    simba_client *client = open_it();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t k = 0; k < 3; k++) {
            char name[16];
            snprintf(name, sizeof name, "m%zu-%zu", i, k);
            simba_locker *locker = make_locker(client, name, 60000);
            const unsigned patches = asked("PATCH");
            fake_kubernetes_fail(&fake, all[i], methods[k], 1);
            int rc = simba_locker_acquire(locker, ref_scaled_ms(10000), NULL);
            assert_int_equal(rc, 0);
            /* A write whose answer is lost was carried out, and is not repeated. */
            if (all[i] == FAKE_KUBE_UNSURE || all[i] == FAKE_KUBE_LOST)
                assert_int_equal(asked("PATCH") - patches, 1);
            assert_string_equal(stored(name, "spec", "leaseTransitions"), "1");
            fake_kubernetes_fail(&fake, FAKE_KUBE_WELL, "GET", 0);
            assert_int_equal(simba_locker_release(locker, NULL), 0);
            simba_locker_free(locker);
        }
    simba_client_close(client);
}

/* A server that is overloaded is left alone for as long as it asks, but for holders. */
static void too_many(void **state)
{
    (void)state;
    simba_client *client = open_it();
    simba_locker *holder = make_locker(client, "held", LONG_LEASE_MS);
    simba_locker *other = make_locker(client, "other", LEASE_MS);
    simba_error err = {0};
    acquire(holder, 0);
    fake_kubernetes_fail(&fake, FAKE_KUBE_TOO_MANY, "GET", 1);
    assert_int_equal(simba_locker_acquire(other, 0, &err), SIMBA_EUNAVAILABLE);
    if (!strstr(err.text, "429"))
        fail_msg("%s", err.text);
    const unsigned patches = asked("PATCH");
    assert_int_equal(simba_locker_acquire(other, 0, &err), SIMBA_EUNAVAILABLE);
    assert_non_null(strstr(err.text, "asked to wait"));
    assert_true(REF_WITHIN(ref_scaled_ms(5000), asked("PATCH") > patches));
    acquire(other, ref_scaled_ms(10000));
    assert_true(simba_locker_held_for_ms(holder) > 0);
    simba_locker_free(other);
    simba_locker_free(holder);
    simba_client_close(client);
}

/* A server that fails to write is asked again after pauses that grow: a read settles each write, and that is all. */
static void failing_writes(void **state)
{
    (void)state;
    simba_client *client = open_it();
    simba_locker *holder = make_locker(client, "m", LONG_LEASE_MS);
    simba_error err = {0};
    acquire(holder, 0);
    const uint64_t token = simba_locker_token(holder);
    const unsigned before = asked("PATCH");
    fake_kubernetes_fail(&fake, FAKE_KUBE_BROKEN, "PATCH", 3);
    assert_true(REF_WITHIN(ref_scaled_ms(9000), asked("PATCH") >= before + 4));
    assert_int_equal(simba_locker_token(holder), token);
    assert_true(simba_locker_held_for_ms(holder) > 0);

    fake_kubernetes_fail(&fake, FAKE_KUBE_BROKEN, "PATCH", 1);
    assert_int_equal(simba_client_force_release(client, "m", &err), SIMBA_EUNAVAILABLE);
    assert_non_null(strstr(err.text, "PATCH of Lease m is answered by 500"));

    const unsigned patches = asked("PATCH");
    fake_kubernetes_fail(&fake, FAKE_KUBE_BROKEN, "PATCH", 100000);
    assert_true(REF_WITHIN(ref_scaled_ms(20000), simba_locker_held_for_ms(holder) == 0));
    assert_in_range(asked("PATCH") - patches, 2, 20);
    fake_kubernetes_fail(&fake, FAKE_KUBE_WELL, "PATCH", 0);
    simba_locker_free(holder);
    simba_client_close(client);
}

/* Its namespace does not exist. */
static void no_namespace(void **state)
{
    (void)state;
    char host[64];
    simba_error err = {0};
    snprintf(host, sizeof host, "127.0.0.1:%d", fake.port);
    simba_client *client = open_at(host, "/nosuch?tls=no");
    simba_locker *locker = make_locker(client, "m", LEASE_MS);
    assert_int_equal(simba_locker_acquire(locker, 0, &err), SIMBA_ESTORE);
    if (!strstr(err.text, "namespaces"))
        fail_msg("%s", err.text);
    assert_int_equal(fake_kubernetes_asked(&fake, "POST"), 1);
    simba_locker_free(locker);
    simba_client_close(client);
}

/* Versions are small from now on, as when somebody brings Leases into another cluster. Annotations stay. */
static void step_back(const char *name)
{
    char key[300];
    snprintf(key, sizeof key, "leases/default/%s", name);
    pthread_mutex_lock(&fake.lock);
    fake.objects.version = fake.objects.shown = 10;
    fake.objects.oldest = 1;
    json_array_clear(fake.objects.history);
    json_object_set_new(json_object_get(json_object_get(fake.objects.objects, key), "metadata"), "resourceVersion",
                        json_string("9"));
    pthread_mutex_unlock(&fake.lock);
}

/* Tokens go on; a holder goes on holding; a waiter whose watch waits for versions that were lost takes over when the lease ends. */
static void restored(void **state)
{
    (void)state;
    simba_client *clients[2] = {open_it(), open_it()};
    simba_locker *lockers[2] = {make_locker(clients[0], "m", LONG_LEASE_MS),
                                make_locker(clients[1], "m", LONG_LEASE_MS)};
    simba_error err = {0};
    for (int i = 0; i < 20; i++) {
        acquire(lockers[0], 0);
        assert_int_equal(simba_locker_release(lockers[0], NULL), 0);
    }
    acquire(lockers[0], 0);
    const uint64_t first = simba_locker_token(lockers[0]);
    simba_contender *waiter = start_waiter(clients[1], "m");
    assert_true(REF_WITHIN(ref_scaled_ms(9000), asked_for("GET", "?watch") >= 1));
    step_back("m");
    const unsigned patches = asked("PATCH");
    assert_true(REF_WITHIN(ref_scaled_ms(9000), asked("PATCH") >= patches + 3));
    assert_int_equal(simba_locker_token(lockers[0]), first);
    assert_true(simba_locker_held_for_ms(lockers[0]) > 0);
    assert_int_equal(simba_locker_release(lockers[0], NULL), 0);
    assert_true(REF_WITHIN(ref_scaled_ms(9000), simba_contender_is_owner(waiter)));
    assert_true(simba_contender_token(waiter) > first);
    const uint64_t second = simba_contender_token(waiter);
    simba_contender_stop(waiter);
    simba_contender_free(waiter);
    assert_int_equal(simba_client_forget(clients[0], "m", &err), SIMBA_ESTORE);
    assert_non_null(strstr(err.text, "behind its latest token"));
    acquire(lockers[1], 0);
    assert_true(simba_locker_token(lockers[1]) > second);
    for (int i = 0; i < 2; i++) {
        simba_locker_free(lockers[i]);
        simba_client_close(clients[i]);
    }
}

static void write_file(const char *name, const char *text, char ret_path[128])
{
    snprintf(ret_path, 128, "%s/%s", folder, name);
    FILE *file = fopen(ret_path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* A wrong token ends a try. One that was right until now is read again: who waits goes on, and a holder goes on holding. */
static void another_token(void **state)
{
    (void)state;
    char path[128], host[64], query[256];
    simba_error err = {0};
    write_file("token", "expired\n", path);
    snprintf(host, sizeof host, "127.0.0.1:%d", fake.port);
    snprintf(query, sizeof query, "/default?tls=no&token-file=%s", path);
    simba_client *client = open_at(host, query);
    simba_locker *locker = make_locker(client, "m", LONG_LEASE_MS);
    assert_int_equal(simba_locker_acquire(locker, 0, &err), SIMBA_EPERM);
    assert_non_null(strstr(err.text, "401"));
    simba_contender *waiter = start_waiter(client, "m");
    write_file("token", FAKE_KUBERNETES_TOKEN "\n", path);
    assert_true(REF_WITHIN(ref_scaled_ms(9000), simba_contender_is_owner(waiter)));
    simba_contender_stop(waiter);
    simba_contender_free(waiter);

    fake_kubernetes_fail(&fake, FAKE_KUBE_UNAUTHORIZED, "PATCH", 1);
    acquire(locker, ref_scaled_ms(9000));
    const unsigned patches = asked("PATCH");
    fake_kubernetes_fail(&fake, FAKE_KUBE_UNAUTHORIZED, "PATCH", 1);
    assert_true(REF_WITHIN(ref_scaled_ms(9000), asked("PATCH") >= patches + 2));
    assert_true(simba_locker_held_for_ms(locker) > 0);
    simba_locker_free(locker);
    simba_client_close(client);
}

static void ignore_row(const simba_listing *row, void *user)
{
    (void)row;
    (void)user;
}

static bool is_alone(void)
{
    pthread_mutex_lock(&fake.lock);
    const bool alone = fake.connections == NULL;
    pthread_mutex_unlock(&fake.lock);
    return alone;
}

static void *close_it(void *client)
{
    simba_client_close(client);
    return NULL;
}

/* A client that closes waits for the file, which may be slow. */
static void slow_token(void **state)
{
    (void)state;
    char path[128], host[64], query[256];
    pthread_t thread;
    write_file("token", FAKE_KUBERNETES_TOKEN "\n", path);
    snprintf(host, sizeof host, "127.0.0.1:%d", fake.port);
    snprintf(query, sizeof query, "/default?tls=no&token-file=%s", path);
    simba_client *client = open_at(host, query);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    fake_kubernetes_fail(&fake, FAKE_KUBE_UNAUTHORIZED, "GET", 1);
    assert_int_equal(simba_client_list(client, NULL, ignore_row, NULL, NULL), SIMBA_EPERM);
    FILE *file = fopen(path, "w"); /* returns when it is read */
    assert_non_null(file);
    assert_int_equal(pthread_create(&thread, NULL, close_it, client), 0);
    assert_true(REF_WITHIN(ref_scaled_ms(9000), is_alone()));
    fputs(FAKE_KUBERNETES_TOKEN "\n", file);
    fclose(file);
    pthread_join(thread, NULL);
    unlink(path);
}

/* --- watches -------------------------------------------------------------------------------------------- */

/* Leases are so long that only the watch can tell of a release, whatever happens to it. */
static void watches(void **state)
{
    (void)state;
    enum { MOST = 4 };
    static const fake_kube_fault all[] = {FAKE_KUBE_WELL, FAKE_KUBE_BROKEN, FAKE_KUBE_LOST, FAKE_KUBE_GONE,
                                          FAKE_KUBE_UNAUTHORIZED};
    simba_client *clients[2] = {open_it(), open_it()};
    for (size_t i = 0; i < 2 * sizeof all / sizeof *all; i++) {
        const int count = i % 2 ? MOST : 1; /* each its own watch, or one for all */
        simba_locker *holders[MOST];
        simba_contender *waiters[MOST];
        char names[MOST][16];
        for (int k = 0; k < count; k++) {
            snprintf(names[k], sizeof names[k], "m%zu-%d", i, k);
            holders[k] = make_locker(clients[0], names[k], 120000);
            acquire(holders[k], 0);
        }
        const unsigned before = asked_for("GET", "?watch");
        fake_kubernetes_fail(&fake, all[i / 2], "WATCH", all[i / 2] != FAKE_KUBE_WELL);
        for (int k = 0; k < count; k++)
            waiters[k] = start_waiter(clients[1], names[k]);
        assert_true(
            REF_WITHIN(ref_scaled_ms(9000), asked_for("GET", "?watch") > before + (all[i / 2] != FAKE_KUBE_WELL)));
        if (all[i / 2] == FAKE_KUBE_GONE)
            fake_kubernetes_compact(&fake);
        if (all[i / 2] == FAKE_KUBE_LOST)
            fake_kubernetes_cut(&fake);
        for (int k = count - 1; k >= 0; k--) {
            assert_int_equal(simba_locker_release(holders[k], NULL), 0);
            assert_true(REF_WITHIN(ref_scaled_ms(9000), simba_contender_is_owner(waiters[k])));
        }
        for (int k = 0; k < count; k++) {
            simba_contender_stop(waiters[k]);
            simba_contender_free(waiters[k]);
            simba_locker_free(holders[k]);
        }
    }
    simba_client_close(clients[1]);
    simba_client_close(clients[0]);
}

/* A server that ends each watch at once is asked again after pauses that grow. */
static void short_watches(void **state)
{
    (void)state;
    enum { WATCHES = 6, LEAST_MS = (100 + 200 + 400 + 800 + 1600) / 2 };
    simba_client *client = open_it();
    simba_locker *holder = make_locker(client, "m", 120000);
    acquire(holder, 0);
    fake_kubernetes_compact(&fake);
    fake_kubernetes_fail(&fake, FAKE_KUBE_GONE, "WATCH", 1000);
    const int64_t begun_ms = ref_now_ms();
    simba_contender *waiter = start_waiter(client, "m");
    assert_true(REF_WITHIN(ref_scaled_ms(20000), asked_for("GET", "?watch") >= WATCHES));
    assert_true(ref_now_ms() - begun_ms >= LEAST_MS);
    simba_contender_stop(waiter);
    simba_contender_free(waiter);
    simba_locker_free(holder);
    simba_client_close(client);
}

/* --- labels --------------------------------------------------------------------------------------------- */

static bool has_label(const char *value)
{
    pthread_mutex_lock(&fake.lock);
    const json_t *pod = json_object_get(fake.objects.objects, "pods/default/me");
    const char *found =
        json_string_value(json_object_get(json_object_get(json_object_get(pod, "metadata"), "labels"), "x/leads"));
    pthread_mutex_unlock(&fake.lock);
    return value ? found && strcmp(found, value) == 0 : !found;
}

/* Our own pod has the label while we lead, and not when the client is closed; also if a PATCH fails, or an earlier process died. */
static void labels(void **state)
{
    (void)state;
    char host[64];
    fake_kube_request pod = {
        .method = "POST",
        .path = "/api/v1/namespaces/default/pods",
        .token = FAKE_KUBERNETES_TOKEN,
        .type = "application/json",
        .body = "{\"metadata\":{\"name\":\"me\",\"labels\":{\"x/leads\":\"old\"}},\"spec\":{\"containers\":[{"
                "\"name\":\"c\",\"image\":\"i\"}]}}"};
    fake_kube_watch watch;
    pod.size = strlen(pod.body);
    pthread_mutex_lock(&fake.lock);
    const fake_kube_answer made = fake_kube_handle(&fake.objects, &pod, false, &watch);
    json_decref(made.body);
    pthread_mutex_unlock(&fake.lock);
    assert_int_equal(made.code, 201);
    setenv("POD_NAME", "me", 1);
    snprintf(host, sizeof host, "127.0.0.1:%d", fake.port);
    simba_client *client = open_at(host, "/default?tls=no&label=x/leads%3Dyes");
    assert_true(REF_WITHIN(ref_scaled_ms(5000), has_label(NULL)));
    simba_locker *locker = make_locker(client, "m", LEASE_MS);
    for (int i = 0; i < 2; i++) {
        acquire(locker, 0);
        assert_true(REF_WITHIN(ref_scaled_ms(5000), has_label("yes")));
        fake_kubernetes_fail(&fake, FAKE_KUBE_BROKEN, "PATCH", (unsigned)i);
        simba_locker_release(locker, NULL);
        assert_true(REF_WITHIN(ref_scaled_ms(9000), has_label(NULL)));
    }
    acquire(locker, 0);
    simba_locker_free(locker);
    simba_client_close(client);
    assert_true(has_label(NULL));
    unsetenv("POD_NAME");
}

/* --- URLs ----------------------------------------------------------------------------------------------- */

static void urls(void **state)
{
    (void)state;
    char paths[3][128];
    simba_client *client = NULL;
    write_file("empty", "\n", paths[0]);
    write_file("binary", "a\001b\n", paths[1]);
    write_file("words", "two words\n", paths[2]);
    static const char *const bad[] = {"kubernetes://h",
                                      "kubernetes://h/UPPER",
                                      "kubernetes://a,b/default",
                                      "kubernetes://h/default?token-file=/nowhere",
                                      "kubernetes://h/default?token-file=/tmp",
                                      "kubernetes://h/default?ca=/nowhere",
                                      "kubernetes://h/default?tls=no&ca=/nowhere",
                                      "kubernetes://h/default?label=x",
                                      "kubernetes://u:p@h/default",
                                      "kubernetes:///default"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad + 3; i++) {
        char url[256];
        simba_error err = {0};
        if (i < sizeof bad / sizeof *bad)
            snprintf(url, sizeof url, "%s", bad[i]);
        else
            snprintf(url, sizeof url, "kubernetes://h/default?token-file=%s", paths[i - sizeof bad / sizeof *bad]);
        assert_int_equal(simba_client_open(url, NULL, &err, &client), SIMBA_EURL);
        assert_true(err.text[0] != '\0');
    }
}

static unsigned warnings;

static void count_finding(const simba_finding *finding, void *user)
{
    (void)user;
    warnings += finding->verdict != SIMBA_VERDICT_OK;
}

static void examined(void **state)
{
    (void)state;
    simba_client *client = open_it();
    warnings = 0;
    assert_int_equal(simba_client_examine(client, count_finding, NULL, NULL), 0);
    assert_int_equal(warnings, 0);
    fake_kubernetes_forbid(&fake, "watch,delete");
    assert_int_equal(simba_client_examine(client, count_finding, NULL, NULL), 0);
    assert_int_equal(warnings, 2);
    simba_client_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fields, setup, teardown),
        cmocka_unit_test_setup_teardown(requests, setup, teardown),
        cmocka_unit_test_setup_teardown(beside_go, setup, teardown),
        cmocka_unit_test_setup_teardown(refused, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged, setup, teardown),
        cmocka_unit_test_setup_teardown(faults, setup, teardown),
        cmocka_unit_test_setup_teardown(too_many, setup, teardown),
        cmocka_unit_test_setup_teardown(failing_writes, setup, teardown),
        cmocka_unit_test_setup_teardown(no_namespace, setup, teardown),
        cmocka_unit_test_setup_teardown(restored, setup, teardown),
        cmocka_unit_test_setup_teardown(meddled, setup, teardown),
        cmocka_unit_test_setup_teardown(another_token, setup, teardown),
        cmocka_unit_test_setup_teardown(slow_token, setup, teardown),
        cmocka_unit_test_setup_teardown(watches, setup, teardown),
        cmocka_unit_test_setup_teardown(short_watches, setup, teardown),
        cmocka_unit_test_setup_teardown(labels, setup, teardown),
        cmocka_unit_test_setup_teardown(urls, setup, teardown),
        cmocka_unit_test_setup_teardown(examined, setup, teardown),
    };
    assert_non_null(mkdtemp(folder));
    const int rc = cmocka_run_group_tests(tests, NULL, NULL);
    static const char *const files[] = {"token", "empty", "binary", "words"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
    }
    rmdir(folder);
    return rc;
}
