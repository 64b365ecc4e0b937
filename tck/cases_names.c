/* Cases about the names of mutexes and contenders. Stores put names into keys, columns and paths, and each has its own rules
 * for which names fit there and which are the same. */
#include <string.h>

#include "probe.h"

/* The lease is so long that it does not end meanwhile. */
static int new_locker(tck_client *client, const char *mutex, simba_error *err, simba_locker **ret_locker)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    options.timing = tck_timing_option(client->kit, tck_timing_steady(client->kit));
    return simba_locker_new(client->handle, mutex, &options, err, ret_locker);
}

/* One locker each of two clients on a mutex. */
static bool new_lockers(tck_client *clients[2], const char *mutex, simba_locker *ret_lockers[2])
{
    for (int i = 0; i < 2; i++) {
        simba_error err = {0};
        const int rc = new_locker(clients[i], mutex, &err, &ret_lockers[i]);
        if (rc < 0) {
            tck_fail(clients[i]->kit, __FILE__, __LINE__, "\"%s\": %s: %s", mutex, tck_code(rc), err.text);
            return false;
        }
    }
    return true;
}

static void require_refused(tck *t, tck_client *client, const char *mutex, const char *id);

/* True if the store says that it cannot have a mutex of this name (`accepts` in its table). Then every door must say
 * so. */
static bool is_refused_by_store(tck *t, tck_client *client, const char *mutex)
{
    simba_locker *locker = NULL;
    const int rc = simba_locker_new(client->handle, mutex, NULL, NULL, &locker);
    simba_locker_free(locker);
    if (rc != SIMBA_EINVAL)
        return false;
    require_refused(t, client, mutex, NULL);
    return true;
}

/* The name works: it is locked, excludes, and is free again. */
static void require_usable(tck *t, tck_client *clients[2], const char *mutex)
{
    SIMBA_LOCKER_SCOPED simba_locker *first = NULL;
    SIMBA_LOCKER_SCOPED simba_locker *second = NULL;
    simba_locker *lockers[2] = {NULL, NULL};
    const bool made = new_lockers(clients, mutex, lockers);
    first = lockers[0];
    second = lockers[1];
    TCK_REQUIRE(t, made);
    const int steps[] = {
        simba_locker_acquire(first, 0, NULL),  simba_locker_acquire(second, 0, NULL), simba_locker_release(first, NULL),
        simba_locker_acquire(second, 0, NULL), simba_locker_release(second, NULL),
    };
    const int wanted[] = {0, SIMBA_ETIMEDOUT, 0, 0, 0};
    for (size_t i = 0; i < TCK_COUNT_OF(steps); i++)
        if (steps[i] != wanted[i])
            tck_fail(t, __FILE__, __LINE__, "\"%s\", step %zu: %s, not %s", mutex, i, tck_code(steps[i]),
                     tck_code(wanted[i]));
}

/* Appends `piece` until the name has `characters` characters. */
static const char *fill(tck *t, const char *start, size_t start_characters, const char *piece, size_t characters)
{
    char *name = tck_alloc(t, SIMBA_MUTEX_BYTES + 16);
    strcpy(name, start);
    for (size_t i = start_characters; i < characters; i++)
        strcat(name, piece);
    return name;
}

static void destroy(void *arg)
{
    simba_locker_free(arg);
}

/* Names of 66 characters, of one byte, of three and of four, the latter up to all 264 bytes; and two that differ at the end. */
static void at_limit(tck *t)
{
    tck_client *clients[2] = {tck_client_new(t), tck_client_new(t)};
    const char *start = tck_mutex(t, NULL);
    const size_t used = strlen(start);
    require_usable(t, clients, fill(t, start, used, "x", SIMBA_MUTEX_MAX));
    require_usable(t, clients, fill(t, start, used, "\u4E92", SIMBA_MUTEX_MAX));
    const char *wide = fill(t, start, used, "\U0001F512", SIMBA_MUTEX_MAX);
    if (!is_refused_by_store(t, clients[0], wide))
        require_usable(t, clients, wide);

    char full[SIMBA_MUTEX_BYTES + 1];
    tck_mutex_widest(t, full);
    TCK_REQUIRE(t, strlen(full) == SIMBA_MUTEX_BYTES);
    if (!is_refused_by_store(t, clients[0], full))
        require_usable(t, clients, full);

    simba_locker *lockers[2];
    for (int i = 0; i < 2; i++) {
        char *name = tck_alloc(t, SIMBA_MUTEX_BYTES + 1);
        strcpy(name, fill(t, start, used, "y", SIMBA_MUTEX_MAX - 1));
        strcat(name, i ? "1" : "2");
        TCK_REQUIRE_RC(t, 0, new_locker(clients[0], name, NULL, &lockers[i]));
        tck_defer(t, NULL, destroy, lockers[i]);
        TCK_REQUIRE_RC(t, 0, simba_locker_acquire(lockers[i], 0, NULL));
    }
}

/* Every door refuses the name, or the id. */
static void require_refused(tck *t, tck_client *client, const char *mutex, const char *id)
{
    simba_contender_options contender = SIMBA_CONTENDER_OPTIONS_INIT;
    simba_locker_options locker = SIMBA_LOCKER_OPTIONS_INIT;
    contender.id = locker.id = id;
    simba_contender *no_contender = NULL;
    simba_locker *no_locker = NULL;
    simba_error err = {0};
    TCK_REQUIRE_RC(t, SIMBA_EINVAL, simba_contender_new(client->handle, mutex, &contender, &err, &no_contender));
    TCK_REQUIRE(t, !no_contender && err.code == SIMBA_EINVAL && err.text[0] != '\0');
    TCK_REQUIRE_RC(t, SIMBA_EINVAL, simba_locker_new(client->handle, mutex, &locker, NULL, &no_locker));
    TCK_REQUIRE(t, !no_locker);
}

/* Names that are too long, empty, blank, or no text are refused before the store sees them. */
static void past_limit(tck *t)
{
    tck_client *client = tck_client_new(t);
    const char *start = tck_mutex(t, NULL);
    const char *refused[] = {
        fill(t, start, strlen(start), "x", SIMBA_MUTEX_MAX + 1),
        fill(t, "", 0, "\U0001F512", SIMBA_MUTEX_MAX + 1),
        "",
        " ",
        "   ",
        " blank-first",
        "blank-last ",
        "a\nb",
        "a\177b",
        "\xFF",
        "a\xC3",
        "\xC0\x80",
        "\xED\xA0\x80",
        NULL,
    };
    for (size_t i = 0; i < TCK_COUNT_OF(refused); i++)
        require_refused(t, client, refused[i], NULL);
}

/* Letters of many scripts, and everything that means something to some store. A store may refuse some of them, but a name
 * that it accepts must work. */
static void of_all_kinds(tck *t)
{
    static const char *const suffixes[] = {
        "ünïcödé",
        "мьютекс",
        "互斥锁",
        "ミューテックス",
        "\U0001F512\U0001F511",
        "e\u0301",
        "a b",
        "a/b",
        "a//b",
        "/",
        "..",
        "a:b",
        "{a}",
        "}{",
        "a*",
        "?[a-z]",
        "100%",
        "a_b",
        "'",
        "\"",
        "`",
        "\\",
        "a;b--",
        "$1",
        "#",
        "a@b",
        "a@@b",
        "<a>&amp;",
        "a,b",
        "a|b",
        "-latch-0000000001",
    };
    tck_client *clients[2] = {tck_client_new(t), tck_client_new(t)};
    for (size_t i = 0; i < TCK_COUNT_OF(suffixes); i++)
        if (!is_refused_by_store(t, clients[0], tck_mutex(t, suffixes[i])))
            require_usable(t, clients, tck_mutex(t, suffixes[i]));
}

/* Names that a store might take for the same are different mutexes, all held at once. */
static void are_exact(tck *t)
{
    static const char *const suffixes[] = {
        "a", "A", "\u00E4", "\u00C4", "a\u0308", "aa", "a-", "a/", "a*", "?", "ss", "\u00DF", "\u0131", "I", "i", "%61",
    };
    tck_client *client = tck_client_new(t);
    for (size_t i = 0; i < TCK_COUNT_OF(suffixes); i++) {
        simba_locker *locker;
        if (is_refused_by_store(t, client, tck_mutex(t, suffixes[i])))
            continue;
        TCK_REQUIRE_RC(t, 0, new_locker(client, tck_mutex(t, suffixes[i]), NULL, &locker));
        tck_defer(t, NULL, destroy, locker);
        const int rc = simba_locker_acquire(locker, 0, NULL);
        if (rc < 0)
            tck_fail(t, __FILE__, __LINE__, "\"%s\" is %s: taken for another name", suffixes[i], tck_code(rc));
    }
}

/* Others see ids of up to 128 bytes as they are; longer ids, and ids with "@@", are refused. */
static void ids(tck *t)
{
    char longest[SIMBA_ID_MAX + 2] = "";
    memset(longest, 'i', SIMBA_ID_MAX);
    const char *const good[] = {longest, "a@b", "0:4711@10.0.0.1", "ünïcödé\U0001F511", "a b", "'\"\\%", "{a}:b"};
    tck_client *clients[2] = {tck_client_new(t), tck_client_new(t)};
    for (size_t i = 0; i < TCK_COUNT_OF(good); i++) {
        char suffix[8];
        snprintf(suffix, sizeof suffix, "%zu", i);
        tck_probe *leader = tck_probe_new(tck_arena_new(t, suffix), clients[0]);
        tck_probe *waiter = tck_probe_new(leader->arena, clients[1]);
        leader->id = good[i];
        leader->timing = waiter->timing = tck_timing_steady(t);
        tck_probe_start(leader);
        TCK_AWAIT(t, leader->acquired == 1);
        tck_probe_start(waiter);
        TCK_AWAIT(t, waiter->changed >= 1);
        simba_owner owner;
        TCK_REQUIRE_RC(t, 0, simba_contender_owner(waiter->contender, &owner));
        TCK_REQUIRE(t, simba_owner_is(&owner, good[i]));
        TCK_REQUIRE_RC(t, 0, tck_probe_stop(waiter));
        TCK_REQUIRE_RC(t, 0, tck_probe_stop(leader));
    }
    char too_long[SIMBA_ID_MAX + 2] = "";
    memset(too_long, 'i', SIMBA_ID_MAX + 1);
    const char *const bad[] = {too_long, "", " ", "a@@b", "@@", "a\nb", "\xFF"};
    for (size_t i = 0; i < TCK_COUNT_OF(bad); i++)
        require_refused(t, clients[0], tck_mutex(t, NULL), bad[i]);
}

const tck_case tck_cases_names[] = {
    {"names-at-limit", 0, 0, at_limit},
    {"names-past-limit", 0, 0, past_limit},
    {"names-of-all-kinds", 0, 0, of_all_kinds},
    {"names-are-exact", 0, 0, are_exact},
    {"ids", 0, 0, ids},
    {0},
};
