/* The value objects carry the meaning of ownership for everything above them: one wrong comparison at the end of a ttl
 * or a transition, and two parts of the library disagree about who leads. These tests pin every predicate at its edges,
 * and the names that logs and scripts rely on. */
#include <simba.h>
#include <string.h>

#include "core/reply.h"
#include "lib/cm.h"

static const simba_owner nobody;
static const simba_owner alice = {
    .id = "alice", .acquired_at_ms = 500, .ttl_at_ms = 1000, .transition_at_ms = 2000, .token = 7};
static const simba_owner bob = {
    .id = "bob", .acquired_at_ms = 2100, .ttl_at_ms = 3000, .transition_at_ms = 4000, .token = 8};

/* Nobody owns anything, at any time, whether it is written as NULL or as zeroes. */
static void nobody_owns_nothing(void **state)
{
    const simba_owner *forms[] = {NULL, &nobody};
    const int64_t times[] = {INT64_MIN, -1, 0, 1, 1700000000000, INT64_MAX};
    for (size_t f = 0; f < 2; f++) {
        assert_true(simba_owner_is_none(forms[f]));
        assert_false(simba_owner_is(forms[f], "alice"));
        assert_false(simba_owner_is(forms[f], ""));
        assert_false(simba_owner_is(forms[f], NULL));
        for (size_t t = 0; t < sizeof times / sizeof *times; t++)
            assert_false(simba_owner_has_owner(forms[f], times[t]));
    }
    assert_false(simba_owner_in_ttl(NULL, INT64_MIN));
    assert_false(simba_owner_in_transition(NULL, INT64_MIN));
    assert_false(simba_owner_is_none(&alice));
}

/* The ttl is over at ttl_at_ms itself: ttl_at > now. The transition still holds at transition_at_ms itself: transition_at >= now.
 * Between the two the owner is late with its renewal but still the owner; without a transition the instant at which the ttl ends
 * is its last. Zeroes are in neither at any time that a store's clock can show. */
static void leases_end_on_the_millisecond(void **state)
{
    static const struct {
        const char *id;
        int64_t ttl_at_ms, transition_at_ms, now_ms;
        bool in_ttl, in_transition, has_owner;
    } cases[] = {
        {"", 0, 0, 1, false, false, false},
        {"alice", 1000, 2000, INT64_MIN, true, true, true},
        {"alice", 1000, 2000, 999, true, true, true},
        {"alice", 1000, 2000, 1000, false, true, true},
        {"alice", 1000, 2000, 2000, false, true, true},
        {"alice", 1000, 2000, 2001, false, false, false},
        {"alice", 1000, 2000, INT64_MAX, false, false, false},
        {"alice", 1000, 1000, 999, true, true, true},
        {"alice", 1000, 1000, 1000, false, true, true},
        {"alice", 1000, 1000, 1001, false, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        simba_owner owner = {
            .ttl_at_ms = cases[i].ttl_at_ms, .transition_at_ms = cases[i].transition_at_ms, .token = 1};
        strcpy(owner.id, cases[i].id);
        assert_int_equal(simba_owner_in_ttl(&owner, cases[i].now_ms), cases[i].in_ttl);
        assert_int_equal(simba_owner_in_transition(&owner, cases[i].now_ms), cases[i].in_transition);
        assert_int_equal(simba_owner_has_owner(&owner, cases[i].now_ms), cases[i].has_owner);
    }
}

/* An owner is recognised by its whole id and nothing less. */
static void is_compares_whole_ids(void **state)
{
    assert_true(simba_owner_is(&alice, "alice"));
    assert_false(simba_owner_is(&alice, "alic"));
    assert_false(simba_owner_is(&alice, "alice2"));
    assert_false(simba_owner_is(&alice, "Alice"));
    assert_false(simba_owner_is(&alice, ""));
    assert_false(simba_owner_is(&alice, NULL));

    simba_owner longest = {.token = 1};
    memset(longest.id, 'x', SIMBA_ID_MAX);
    char id[SIMBA_ID_MAX + 1];
    strcpy(id, longest.id);
    assert_true(simba_owner_is(&longest, id));
    id[SIMBA_ID_MAX - 1] = 'y';
    assert_false(simba_owner_is(&longest, id));
}

/* Every pair of owners that can follow each other: what changed, and for whom. */
static void states_tell_what_happened(void **state)
{
    simba_owner renewed = alice;
    renewed.ttl_at_ms += 1000;
    renewed.transition_at_ms += 1000;
    simba_owner again = alice;
    again.token = 9;

    const struct {
        const simba_owner *before, *after;
        bool changed, acquired, released; /* the last two as alice sees it */
    } cases[] = {
        {&nobody, &nobody, false, false, false}, {&nobody, &alice, true, true, false},
        {&alice, &nobody, true, false, true},    {&alice, &alice, false, false, false},
        {&alice, &renewed, false, false, false}, {&alice, &again, true, true, true},
        {&alice, &bob, true, false, true},       {&bob, &alice, true, true, false},
        {&bob, &bob, false, false, false},       {&nobody, &bob, true, false, false},
        {&bob, &nobody, true, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const simba_state seen = {*cases[i].before, *cases[i].after};
        assert_int_equal(simba_state_changed(&seen), cases[i].changed);
        assert_int_equal(simba_state_acquired(&seen, "alice"), cases[i].acquired);
        assert_int_equal(simba_state_released(&seen, "alice"), cases[i].released);
        /* A bystander neither gains nor loses. */
        assert_false(simba_state_acquired(&seen, "carol"));
        assert_false(simba_state_released(&seen, "carol"));
        /* Nobody is not somebody who could gain or lose. */
        assert_false(simba_state_acquired(&seen, ""));
        assert_false(simba_state_released(&seen, ""));
        assert_false(simba_state_acquired(&seen, NULL));
        assert_false(simba_state_released(&seen, NULL));
    }
}

/* No state at all is no change. */
static void no_state_is_no_change(void **state)
{
    assert_false(simba_state_changed(NULL));
    assert_false(simba_state_acquired(NULL, "alice"));
    assert_false(simba_state_released(NULL, "alice"));
}

/* The reasons are in logs and in the output of the command, so their words stay. */
static void reasons_have_names(void **state)
{
    assert_string_equal(simba_reason_name(SIMBA_REASON_NONE), "none");
    assert_string_equal(simba_reason_name(SIMBA_REASON_STOPPED), "stopped");
    assert_string_equal(simba_reason_name(SIMBA_REASON_SUPERSEDED), "superseded");
    assert_string_equal(simba_reason_name(SIMBA_REASON_EXPIRED), "expired");
    assert_string_equal(simba_reason_name(SIMBA_REASON_SESSION_LOST), "session lost");
    assert_string_equal(simba_reason_name(SIMBA_REASON_REVOKED), "revoked");
    assert_string_equal(simba_reason_name(SIMBA_REASON_HOLD_LIMIT), "hold limit reached");
    assert_string_equal(simba_reason_name((simba_reason)99), "unknown reason");
}

/* The states of the lifecycle, by name. */
static void statuses_have_names(void **state)
{
    assert_string_equal(simba_status_name(SIMBA_STATUS_INITIAL), "initial");
    assert_string_equal(simba_status_name(SIMBA_STATUS_STARTING), "starting");
    assert_string_equal(simba_status_name(SIMBA_STATUS_RUNNING), "running");
    assert_string_equal(simba_status_name(SIMBA_STATUS_STOPPING), "stopping");
    assert_string_equal(simba_status_name((simba_status)99), "unknown status");
}

static void another_owner_has_another_token_or_id(void **state)
{
    simba_owner same = alice;
    assert_false(simba__is_another(&alice, &same));
    assert_false(simba__is_another(&nobody, &nobody));
    assert_true(simba__is_another(&alice, &bob));
    assert_true(simba__is_another(&alice, &nobody) && simba__is_another(&nobody, &alice));
    same.token++;
    assert_true(simba__is_another(&alice, &same));
    same = bob;
    same.token = alice.token; /* of a store that does not know tokens */
    assert_true(simba__is_another(&alice, &same));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_owns_nothing),   cmocka_unit_test(leases_end_on_the_millisecond),
        cmocka_unit_test(is_compares_whole_ids), cmocka_unit_test(states_tell_what_happened),
        cmocka_unit_test(no_state_is_no_change), cmocka_unit_test(another_owner_has_another_token_or_id),
        cmocka_unit_test(reasons_have_names),    cmocka_unit_test(statuses_have_names),
    };
    return cmocka_run_group_tests_name("values", tests, NULL, NULL);
}
