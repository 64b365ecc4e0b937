/* The names, requests and answers of etcd, as its JSON gateway has them: without any server. */
#include <stdio.h>
#include <string.h>

#include "lib/cm.h"

#include "stores/etcd/etcd.h"

#define HEADER "\"header\":{\"cluster_id\":\"1\",\"member_id\":\"2\",\"revision\":\"50\",\"raft_term\":\"3\"}"
enum { LEASE = 0x1f };

static etcd_names names;
static char text[8192];

static int setup(void **state)
{
    (void)state;
    simba__etcd_names("p/", "m", &names);
    simba__etcd_name_own(&names, LEASE, 0xabc);
    text[0] = '\0';
    return 0;
}

static simba__json json(void)
{
    simba__json value;
    assert_true(simba__json_read(text, strlen(text), &value));
    return value;
}

static void add(const char *part)
{
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s", part);
}

static void add_kv(const char *key, int64_t revision, const char *value, const char *behind)
{
    char key64[SIMBA__BASE64_SIZE(256)];
    char value64[SIMBA__BASE64_SIZE(256)];
    snprintf(
        text + strlen(text), sizeof text - strlen(text),
        "{\"key\":\"%s\",\"create_revision\":\"%lld\",\"mod_revision\":\"%lld\",\"version\":\"1\",\"value\":\"%s\","
        "\"lease\":\"31\"}%s",
        simba__base64(key, strlen(key), key64), (long long)revision, (long long)revision,
        simba__base64(value, strlen(value), value64), behind);
}

/* --- names -------------------------------------------------------------------------------------------------- */

static void about_names(void **state)
{
    (void)state;
    assert_string_equal(names.folder, "p/m/");
    assert_string_equal(names.note, "simba-notes/p/m");
    assert_string_equal(names.own, "p/m/1f-0000000000000abc");
    assert_true(simba__etcd_contends("p/m/", names.own));
    assert_true(simba__etcd_contends("p/m/", "p/m/694d"));    /* Go's */
    assert_false(simba__etcd_contends("p/m/", "p/m/x/694d")); /* of the mutex m/x */
    assert_false(simba__etcd_contends("p/m/", "p/m/"));
    assert_false(simba__etcd_contends("p/m/", "p/mm/694d"));
}

/* Other programs have keys of their own below any prefix. */
static void about_locks(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        int64_t lease;
        bool is_lock;
    } cases[] = {
        {"m/1f", 0x1f, true},
        {"m/1f-0000000000000abc", 0x1f, true},
        {"a/b/1f", 0x1f, true},
        {"m/1e", 0x1f, false},
        {"m/1f", 0, false},
        {"1f", 0x1f, false},
        {"/1f", 0x1f, false},
        {"m/1f-abc", 0x1f, false},
        {"m/1f-0000000000000abX", 0x1f, false},
        {"m/1fa", 0x1f, false},
        {"registry/pods/x", 0x1f, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        etcd_kv kv = {.lease = cases[i].lease};
        strcpy(kv.key, cases[i].key);
        if (simba__etcd_is_lock(&kv) != cases[i].is_lock)
            fail_msg("%s", cases[i].key);
    }
}

/* --- requests ----------------------------------------------------------------------------------------------- */

static void about_ranges(void **state)
{
    (void)state;
    static const struct {
        const char *folder, *last, *says;
    } cases[] = {
        {"a/", "", "\"key\":\"YS8=\",\"range_end\":\"YTA=\""},
        {"", "", "\"key\":\"AA==\",\"range_end\":\"AA==\""},
        {"\xff\xff", "", "\"key\":\"//8=\",\"range_end\":\"AA==\""},
        {"a\xff", "", "\"key\":\"Yf8=\",\"range_end\":\"Yg==\""},
        {"a/", "a/b", "\"key\":\"YS9iAA==\",\"range_end\":\"YTA=\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        simba__buffer out = {0};
        simba__etcd_put_page(&out, cases[i].folder, cases[i].last);
        simba__buffer_put(&out, "", 1);
        assert_string_equal(out.data, cases[i].says);
        simba__buffer_free(&out);
    }
}

/* Requests are JSON, and look at nothing when there is nothing below. */
static void about_requests(void **state)
{
    (void)state;
    simba__json value;
    for (int i = 0; i < 4; i++) {
        simba__buffer out = {0};
        if (i == 0)
            simba__etcd_put_enter(&out, &names, LEASE, "me");
        else if (i == 1)
            simba__etcd_put_delete(&out, names.own, "EQUAL", 7);
        else
            simba__etcd_put_look(&out, &names, i == 2 ? 0 : 9);
        assert_true(simba__json_read(out.data, out.length, &value));
        simba__buffer_put(&out, "", 1);
        assert_int_equal(strstr(out.data, "\"max_create_revision\":\"8\"") != NULL, i == 3);
        simba__buffer_free(&out);
    }
}

/* --- answers ------------------------------------------------------------------------------------------------ */

static void begin_enter(bool succeeded)
{
    snprintf(text, sizeof text, "{" HEADER ",%s\"responses\":[%s{\"response_range\":{\"kvs\":[",
             succeeded ? "\"succeeded\":true," : "", succeeded ? "{\"response_put\":{}}," : "");
}

/* The key was put, or was there: either way its place is known. */
static void entered(void **state)
{
    (void)state;
    etcd_sight sight;
    for (int i = 0; i < 2; i++) {
        begin_enter(i == 0);
        add_kv(names.own, 50, "me", "]}},{\"response_range\":{\"kvs\":[");
        add_kv("p/m/sub/1", 40, "", ",");
        add_kv("p/m/77", 41, "other", ",");
        add_kv("p/m/78", 45, "", ",");
        add_kv(names.own, 50, "me", "],\"count\":\"4\"}}]}");
        assert_true(simba__etcd_read_enter(json(), &names, &sight));
        assert_int_equal(sight.own, 50);
        assert_int_equal(sight.before, 45);
        assert_string_equal(sight.before_key, "p/m/78");
        assert_int_equal(sight.rest, 0);
        assert_true(sight.has_first);
        const simba_owner owner = simba__etcd_owner(&sight.first);
        assert_string_equal(owner.id, "other");
        assert_int_equal(owner.token, 41);
    }
}

static void entered_behind_the_page(void **state)
{
    (void)state;
    etcd_sight sight;
    begin_enter(true);
    add_kv(names.own, 50, "me", "]}},{\"response_range\":{\"more\":true,\"kvs\":[");
    add_kv("p/m/77", 41, "", "]}}]}");
    assert_true(simba__etcd_read_enter(json(), &names, &sight));
    assert_int_equal(sight.before, 0);
    assert_int_equal(sight.rest, 50);
    assert_string_equal(simba__etcd_owner(&sight.first).id, "77"); /* Go's Mutex stores no value */
}

static void looked(void **state)
{
    (void)state;
    etcd_sight sight;
    add("{" HEADER ",\"succeeded\":true,\"responses\":[{\"response_range\":{\"kvs\":[");
    add_kv(names.own, 50, "me", "]}},{\"response_range\":{\"kvs\":[");
    add_kv("p/m/sub/1", 44, "", ",");
    add_kv("p/m/78", 43, "", ",");
    add_kv("p/m/77", 41, "first", "]}}]}");
    assert_true(simba__etcd_read_look(json(), &names, &sight));
    assert_int_equal(sight.before, 43);
    assert_string_equal(simba__etcd_owner(&sight.first).id, "first");
}

/* All keys of the page are those of other mutexes: look further down. */
static void looked_in_vain(void **state)
{
    (void)state;
    etcd_sight sight;
    add("{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[");
    add_kv(names.own, 50, "me", "]}},{\"response_range\":{\"more\":true,\"kvs\":[");
    add_kv("p/m/sub/1", 44, "", "]}}]}");
    assert_true(simba__etcd_read_look(json(), &names, &sight));
    assert_int_equal(sight.before, 0);
    assert_int_equal(sight.rest, 44);
    assert_false(sight.has_first);
}

static void gone(void **state)
{
    (void)state;
    etcd_sight sight;
    add("{" HEADER ",\"responses\":[{\"response_range\":{}},{\"response_range\":{}}]}");
    assert_true(simba__etcd_read_look(json(), &names, &sight));
    assert_int_equal(sight.own, 0);
}

/* What no etcd says. */
static void nonsense(void **state)
{
    (void)state;
    static const char *const answers[] = {
        "{}",
        "{\"responses\":[]}",
        "{\"header\":{\"revision\":\"-1\",\"raft_term\":\"3\"}}",
        "{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[{}]}}]}",
        "{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":\"YQ==\",\"create_revision\":\"5\"}]}}]}",
        "[1,2]",
    };
    etcd_sight sight;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        strcpy(text, answers[i]);
        assert_false(simba__etcd_read_enter(json(), &names, &sight));
        assert_false(simba__etcd_read_look(json(), &names, &sight) && sight.own > 0);
    }
}

static void about_faults(void **state)
{
    (void)state;
    static const struct {
        const char *answer;
        int64_t code;
    } cases[] = {
        {"{\"error\":\"etcdserver: requested lease not found\",\"code\":5,\"message\":\"why\"}", 5}, /* 3.4 */
        {"{\"code\":5, \"message\":\"why\", \"details\":[]}", 5},                                    /* 3.5 */
        {"{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"why\",\"http_status\":\"x\"}}",
         14}, /* a stream's */
        {"{\"error\":{\"code\":14,\"message\":\"why\"}}", 14},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        etcd_fault fault;
        strcpy(text, cases[i].answer);
        simba__etcd_read_fault(json(), &fault);
        assert_int_equal(fault.code, cases[i].code);
        assert_string_equal(fault.text, "why");
    }
}

/* --- notes -------------------------------------------------------------------------------------------------- */

static void about_notes(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", "1 ", "2 5 6 7\nx", "1 5 6\nx", "1 5 6 7", "1 -5 6 7\n", "1 5 6 99999999999999999\n"};
    char data[ETCD_STORED_NOTE_MAX];
    etcd_note note;
    const size_t length = simba__etcd_note_write(&(etcd_note){5, 6, 7, "a\nb", 3}, data);
    assert_int_equal(length, 11);
    assert_memory_equal(data, "1 5 6 7\na\nb", 11);
    assert_true(simba__etcd_note_read(data, length, &note));
    assert_int_equal(note.token, 5);
    assert_int_equal(note.number, 6);
    assert_int_equal(note.written_at_ms, 7);
    assert_int_equal(note.size, 3);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(simba__etcd_note_read(bad[i], strlen(bad[i]), &note));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(about_names, setup),  cmocka_unit_test_setup(about_locks, setup),
        cmocka_unit_test_setup(about_ranges, setup), cmocka_unit_test_setup(about_requests, setup),
        cmocka_unit_test_setup(entered, setup),      cmocka_unit_test_setup(entered_behind_the_page, setup),
        cmocka_unit_test_setup(looked, setup),       cmocka_unit_test_setup(looked_in_vain, setup),
        cmocka_unit_test_setup(gone, setup),         cmocka_unit_test_setup(nonsense, setup),
        cmocka_unit_test_setup(about_faults, setup), cmocka_unit_test_setup(about_notes, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
