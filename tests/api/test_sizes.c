/* Programs that were compiled with an older or a newer header than this library: their structs are shorter or longer. Every
 * struct lies in memory of exactly its size, so that a sanitizer sees who reads or writes past its end. */
#include <simba/backend.h>
#include <stdlib.h>

#include "support.h"

/* The first `size` bytes of `sized`, and zeroes where it has no more; its size says so. To be freed. */
static void *resized(const void *sized, size_t own_size, size_t size)
{
    char *made = calloc(1, size);
    assert_non_null(made);
    memcpy(made, sized, size < own_size ? size : own_size);
    memcpy(made, &size, sizeof size);
    return made;
}

/* Open, make or register what `options` describe, and undo it. */
typedef int (*use_fn)(simba_client *client, const void *options, simba_error *err);

static int use_client(simba_client *client, const void *options, simba_error *err)
{
    simba_client *made = NULL;
    const int rc = simba_client_open(store_url(), options, err, &made);
    simba_client_close(made);
    return rc;
}

#define USE(door)                                                                                                      \
    static int use_##door(simba_client *client, const void *options, simba_error *err)                                 \
    {                                                                                                                  \
        simba_##door *made = NULL;                                                                                     \
        const int rc = simba_##door##_new(client, "m", options, err, &made);                                           \
        simba_##door##_free(made);                                                                                     \
        return rc;                                                                                                     \
    }
USE(contender)
USE(locker)
USE(scheduler)
USE(observer)

static void no_work(simba_run *run, void *user)
{
}

static void no_change(simba_observer *observer, const simba_state *state, void *user)
{
}

static const simba_client_options for_client = SIMBA_CLIENT_OPTIONS_INIT;
static const simba_contender_options for_contender = SIMBA_CONTENDER_OPTIONS_INIT;
static const simba_locker_options for_locker = SIMBA_LOCKER_OPTIONS_INIT;
static const simba_scheduler_options for_scheduler = {
    .size = sizeof for_scheduler, .timing = SIMBA_TIMING_INHERIT, .period_ms = 1000, .work = no_work};
static const simba_observer_options for_observer = {sizeof for_observer, no_change, NULL, 1000, NULL, NULL};

static const struct {
    const char *name;
    const void *good;
    size_t size;
    size_t needed; /* how much of it has to be there, as an option is required */
    use_fn use;
} kinds[] = {
    {"simba_client_options", &for_client, sizeof for_client, sizeof(size_t), use_client},
    {"simba_contender_options", &for_contender, sizeof for_contender, sizeof(size_t), use_contender},
    {"simba_locker_options", &for_locker, sizeof for_locker, sizeof(size_t), use_locker},
    {"simba_scheduler_options", &for_scheduler, sizeof for_scheduler,
     offsetof(simba_scheduler_options, work) + sizeof(simba_work_fn), use_scheduler},
    {"simba_observer_options", &for_observer, sizeof for_observer,
     offsetof(simba_observer_options, on_changed) + sizeof(simba_observed_fn), use_observer},
};

/* What an older header did not have gets its default: a client without a callback thread, for one, would be refused. */
static void options_of_an_older_header(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        for (size_t size = kinds[i].needed; size < kinds[i].size; size += sizeof(size_t)) {
            void *options = resized(kinds[i].good, kinds[i].size, size);
            simba_error err = {0};
            if (kinds[i].use(client, options, &err) != 0)
                fail_msg("%s of %zu bytes: %s", kinds[i].name, size, err.text);
            free(options);
        }
}

/* A newer header has more. While the program leaves that at zero it asks for nothing that we would have to know. */
static void options_of_a_newer_header(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        const size_t size = kinds[i].size + 4 * sizeof(size_t);
        char *options = resized(kinds[i].good, kinds[i].size, size);
        simba_error err = {0};
        assert_rc(0, kinds[i].use(client, options, &err));
        for (size_t at = kinds[i].size; at < size; at++) {
            options[at] = 1;
            assert_rc(SIMBA_EINVAL, kinds[i].use(client, options, &err));
            assert_ptr_equal(strstr(err.text, kinds[i].name), err.text);
            assert_non_null(strstr(err.text, "newer version"));
            options[at] = 0;
        }
        free(options);
    }
}

/* A size that no struct can have was never initialised; nothing else is looked at then. */
static void sizes_that_cannot_be(void **state)
{
    static const size_t sizes[] = {0, 1, sizeof(size_t) - 1, sizeof(size_t) + 1, 4097, SIZE_MAX, SIZE_MAX - 7};
    SCOPED simba_client *client = client_open(NULL);
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        for (size_t k = 0; k < COUNT_OF(sizes); k++) {
            simba_error err = {0};
            assert_rc(SIMBA_EINVAL, kinds[i].use(client, &sizes[k], &err));
            assert_non_null(strstr(err.text, ".size"));
            assert_non_null(strstr(err.text, "_INIT"));
        }
    for (size_t k = 0; k < COUNT_OF(sizes); k++) {
        simba_stats stats = {.size = sizes[k], .grants = 42};
        simba_settings settings = {.size = sizes[k], .session_ms = 42};
        assert_rc(SIMBA_EINVAL, simba_client_stats(client, &stats));
        assert_rc(SIMBA_EINVAL, simba_client_settings(client, &settings));
        assert_int_equal(stats.grants, 42);
        assert_int_equal(settings.session_ms, 42);
    }
}

static int tell_stats(simba_client *client, void *ret)
{
    return simba_client_stats(client, ret);
}

static int tell_settings(simba_client *client, void *ret)
{
    return simba_client_settings(client, ret);
}

static simba_contender *holder;

static int tell_lease(simba_client *client, void *ret)
{
    return simba_contender_lease(holder, ret);
}

static int tell_note(simba_client *client, void *ret)
{
    return simba_client_note(client, "m", NULL, ret);
}

/* What the library tells: as much as the program has room for, and nothing past what the library knows. `whole` NULL: it
 * changes from call to call. */
static void tell_every_size(simba_client *client, int (*tell)(simba_client *client, void *ret), const void *whole,
                            size_t whole_size)
{
    for (size_t size = sizeof(size_t); size <= whole_size + 4 * sizeof(size_t); size += sizeof(size_t)) {
        const size_t known = size < whole_size ? size : whole_size;
        char *told = malloc(size);
        assert_non_null(told);
        memset(told, 0x5A, size);
        memcpy(told, &size, sizeof size);
        assert_rc(0, tell(client, told));
        assert_memory_equal(told, &size, sizeof size);
        if (whole)
            assert_memory_equal(told + sizeof size, (const char *)whole + sizeof size, known - sizeof size);
        for (size_t at = known; at < size; at++)
            assert_int_equal(told[at], 0x5A);
        free(told);
    }
}

static void what_is_told_fits(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    simba_settings settings = SIMBA_SETTINGS_INIT;
    assert_rc(0, simba_client_settings(client, &settings));
    assert_int_equal(settings.timing.ttl_ms, 10000);
    tell_every_size(client, tell_settings, &settings, sizeof settings);
    tell_every_size(client, tell_stats, NULL, sizeof(simba_stats));
    assert_rc(0, simba_contender_new(client, "m", NULL, NULL, &holder));
    assert_rc(0, simba_contender_start(holder));
    AWAIT(simba_contender_is_owner(holder));
    tell_every_size(client, tell_lease, NULL, sizeof(simba_lease));
    assert_rc(0, simba_contender_note_set(holder, "note", 4, NULL));
    tell_every_size(client, tell_note, NULL, sizeof(simba_note));
    assert_rc(SIMBA_EINVAL, tell_note(client, &(simba_note){.size = 3}));
    simba_contender_free(holder);
}

/* A part of every options struct, it cannot get longer: what is reserved in it is to be left alone. */
static void timing_has_a_reserve(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_error err = {0};
    for (size_t i = 0; i < COUNT_OF(options.timing.reserved); i++) {
        assert_true(options.timing.reserved[i] == SIMBA_INHERIT);
        options.timing.reserved[i] = 1;
        assert_rc(SIMBA_EINVAL, use_locker(client, &options, &err));
        assert_non_null(strstr(err.text, "reserved"));
        options.timing.reserved[i] = 0;
        assert_rc(0, use_locker(client, &options, &err));
    }
    assert_int_equal(sizeof(simba_timing), 12 * sizeof(int64_t));
}

static void check_listing(const simba_listing *listing, void *user)
{
    assert_int_equal(listing->size, sizeof *listing);
    ++*(unsigned *)user;
}

static void rows_say_their_size(void **state)
{
    SCOPED simba_client *client = client_open(NULL);
    SIMBA_LOCKER_SCOPED simba_locker *locker = NULL;
    unsigned rows = 0;
    assert_rc(0, simba_locker_new(client, "m", NULL, NULL, &locker));
    assert_rc(0, simba_locker_acquire(locker, TIMEOUT_MS, NULL));
    assert_rc(0, simba_client_list(client, NULL, check_listing, &rows, NULL));
    assert_int_equal(rows, 1);
}

/* --- a store of another header ----------------------------------------------------------------------- */

static size_t told_size; /* of the structs that the store tells */

/* One row and one finding, each in memory of exactly the size that it says. */
static void teller_submit(void *self, simba_request *request)
{
    static const simba_owner owner = {.id = "somebody", .token = 7};
    const simba_listing listing = {.size = sizeof listing,
                                   .mutex = "m",
                                   .owner = &owner,
                                   .now_ms = 42,
                                   .waiters = 3,
                                   .note = "note",
                                   .note_length = 4,
                                   .note_token = 6,
                                   .note_written_at_ms = 41,
                                   .next = "another"};
    const simba_finding finding = {sizeof finding, SIMBA_VERDICT_WARNING, "schema", "a sentence", "a remedy"};
    const bool lists = request->op == SIMBA_OP_LIST;
    void *told = lists ? resized(&listing, sizeof listing, told_size) : resized(&finding, sizeof finding, told_size);
    request->reply = (simba_reply){.status = 0};
    const int rc = lists ? stub_host->listed(stub_host, request, told) : stub_host->found(stub_host, request, told);
    free(told);
    if (rc == 0)
        stub_host->complete(stub_host, request);
    else
        (stub_host->fail)(stub_host, request, rc, "teller: not taken"); /* fail is a macro of cmocka */
}

struct heard {
    unsigned count;
    int64_t now_ms, waiters;
    size_t note_length;
    bool has_text, has_remedy, has_next;
};

static void hear_row(const simba_listing *listing, void *user)
{
    struct heard *heard = user;
    assert_int_equal(listing->size, sizeof *listing);
    assert_string_equal(listing->mutex, "m");
    assert_string_equal(listing->owner->id, "somebody");
    assert_true(listing->note_length == 0 || memcmp(listing->note, "note", listing->note_length) == 0);
    assert_true(!listing->next || strcmp(listing->next, "another") == 0);
    *heard = (struct heard){.count = heard->count + 1,
                            .now_ms = listing->now_ms,
                            .waiters = listing->waiters,
                            .note_length = listing->note_length,
                            .has_next = listing->next != NULL};
}

static void hear_finding(const simba_finding *finding, void *user)
{
    struct heard *heard = user;
    assert_int_equal(finding->size, sizeof *finding);
    *heard = (struct heard){
        .count = heard->count + 1, .has_text = finding->text != NULL, .has_remedy = finding->remedy != NULL};
}

/* Rows and findings of a store with an older header lack what came later, and the program sees that they do; those of a newer
 * one have more, which is left out. Without what every row has had, it is none. */
static void rows_of_stores_with_other_headers(void **state)
{
    static const char *const schemes[] = {"teller", NULL};
    simba_client *client = NULL;
    assert_rc(0, stub_register((simba_backend){
                     .schemes = schemes, .caps = SIMBA_CAP_LIST | SIMBA_CAP_EXAMINE, .submit = teller_submit}));
    assert_rc(0, simba_client_open("teller://x", NULL, NULL, &client));
    struct heard heard = {0};
    for (told_size = offsetof(simba_listing, now_ms); told_size <= sizeof(simba_listing) + 16; told_size += 8) {
        assert_rc(0, simba_client_list(client, NULL, hear_row, &heard, NULL));
        assert_int_equal(heard.now_ms, told_size > offsetof(simba_listing, now_ms) ? 42 : 0);
        assert_int_equal(heard.waiters, told_size > offsetof(simba_listing, waiters) ? 3 : -1);
        assert_int_equal(heard.note_length, told_size > offsetof(simba_listing, note_length) ? 4 : 0);
        assert_int_equal(heard.has_next, told_size > offsetof(simba_listing, next));
    }
    assert_int_equal(heard.count, 10);
    told_size = offsetof(simba_listing, owner);
    assert_rc(SIMBA_EINVAL, simba_client_list(client, NULL, hear_row, &heard, NULL));

    heard.count = 0;
    for (told_size = offsetof(simba_finding, text); told_size <= sizeof(simba_finding) + 16; told_size += 8) {
        assert_rc(0, simba_client_examine(client, hear_finding, &heard, NULL));
        assert_int_equal(heard.has_text, told_size > offsetof(simba_finding, text));
        assert_int_equal(heard.has_remedy, told_size > offsetof(simba_finding, remedy));
    }
    assert_int_equal(heard.count, 5);
    client_close(client);
}

/* A store's table likewise. What comes last, from `accepts` on, may be missing. */
static void tables_of_other_headers(void **state)
{
    static const char *const names[][2] = {{"older", NULL}, {"newer", NULL}, {"odd", NULL}};
    simba_backend table = *simba_backend_find("memory");

    table.schemes = names[0];
    void *older = resized(&table, sizeof table, offsetof(simba_backend, accepts));
    assert_rc(0, simba_backend_register(older));
    free(older); /* it was copied */
    simba_client *client = NULL;
    assert_rc(0, simba_client_open("older://x", NULL, NULL, &client));
    assert_rc(0, use_locker(client, NULL, NULL));
    client_close(client);

    table.schemes = names[1];
    char *newer = resized(&table, sizeof table, sizeof table + sizeof(void *));
    newer[sizeof table] = 1;
    assert_rc(SIMBA_EINVAL, simba_backend_register((simba_backend *)(void *)newer));
    newer[sizeof table] = 0;
    assert_rc(0, simba_backend_register((simba_backend *)(void *)newer));
    free(newer);

    table.schemes = names[2];
    table.version++;
    assert_rc(SIMBA_EINVAL, simba_backend_register(&table));
    table.version--;
    table.size = offsetof(simba_backend, fini); /* which has to be there */
    assert_rc(SIMBA_EINVAL, simba_backend_register(&table));
    table.size = sizeof table;
    table.expire = NULL;
    assert_rc(SIMBA_EINVAL, simba_backend_register(&table));
    table.size = 1;
    assert_rc(SIMBA_EINVAL, simba_backend_register(&table));
    assert_rc(SIMBA_EINVAL, simba_backend_register(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(options_of_an_older_header), TEST(options_of_a_newer_header),
        TEST(sizes_that_cannot_be),       TEST(what_is_told_fits),
        TEST(timing_has_a_reserve),       TEST(rows_say_their_size),
        TEST(tables_of_other_headers),    TEST(rows_of_stores_with_other_headers),
    };
    return cmocka_run_group_tests_name("sizes", tests, NULL, NULL);
}
