/* `simba note`, `simba forget`, `simba list --held`, and the note that a command finds and leaves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "support.h"

static void assert_note(const char *text)
{
    assert_int_equal(RUN("note", "get", "m"), 0);
    assert_string_equal(out_of(&last), text);
}

/* What is set is there, byte by byte; an empty text removes it. */
static void set_and_get(void **state)
{
    assert_int_equal(RUN("note", "get", "m"), 1);
    assert_non_null(strstr(err_of(&last), "m has no note"));
    assert_int_equal(RUN("note", "set", "m", "page 7\t\xff"), 0);
    assert_note("page 7\t\xff");
    assert_int_equal(RUN("note", "get", "--json", "m"), 0);
    assert_non_null(strstr(out_of(&last), "{\"mutex\":\"m\",\"note\":\"page 7\\u0009\\ufffd\",\"token\":\""));
    assert_int_equal(RUN("note", "set", "m", ""), 0);
    assert_int_equal(RUN("note", "get", "m"), 1);
    assert_int_equal(RUN("list", "--held"), 0);
    assert_string_equal(out_of(&last), "");
}

static void mistakes_are_named(void **state)
{
    char text[1026];
    memset(text, 'x', sizeof text - 1);
    text[1025] = '\0';
    assert_int_equal(RUN("note", "set", "m", text), 64);
    assert_non_null(strstr(err_of(&last), "at most 1024 bytes"));
    text[1024] = '\0';
    assert_int_equal(RUN("note", "set", "m", text), 0);
    assert_note(text);
    assert_int_equal(RUN("note", "put", "m"), 64);
    assert_int_equal(RUN("note", "set", "m"), 64);
    assert_int_equal(RUN("note", "get", "m", "x"), 64);
    assert_int_equal(RUN("note", "set", "--json", "m", "x"), 64);
}

/* What says when something ran last is neither shown nor overwritten. */
static void the_record_of_a_schedule_is_left_alone(void **state)
{
    assert_int_equal(RUN("run", "--once-per", "1h", "m", "--", "true"), 0);
    assert_int_equal(RUN("note", "get", "m"), 1);
    assert_int_equal(RUN("note", "set", "m", "mine"), 0);
    assert_note("mine");
    assert_int_equal(RUN("run", "m", "--", "sh", "-c", "printf %s \"$SIMBA_NOTE, too\" >\"$SIMBA_NOTE_FILE\""), 0);
    assert_note("mine, too");
    assert_int_equal(RUN("list"), 0);
    assert_null(strstr(out_of(&last), "simba-schedule"));
    assert_int_equal(RUN("run", "--once-per", "1h", "m", "--", "true"), 75);
}

/* While somebody holds it, the note is his, and the mutex is not forgotten. */
static void a_held_mutex_is_left_alone(void **state)
{
    set_lease("1s", "4s");
    assert_int_equal(RUN("note", "set", "m", "before"), 0);
    process holder = START("--id", "holder", "run", "m", "--", "sh", "-c", "echo x > \"$0\"; read line", in_dir("up"));
    await_file(in_dir("up"));
    assert_int_equal(RUN("note", "set", "m", "other"), 75);
    assert_non_null(strstr(err_of(&last), "owned by holder"));
    assert_int_equal(RUN("forget", "m"), 75);
    assert_non_null(strstr(err_of(&last), "owned by holder"));
    assert_note("before");
    assert_int_equal(RUN("note", "set", "free", "x"), 0);
    assert_int_equal(RUN("list", "--held"), 0);
    assert_non_null(strstr(out_of(&last), "holder"));
    assert_null(strstr(out_of(&last), "free"));
    finish(&holder);
    assert_int_equal(RUN("forget", "m"), 0);
    assert_int_equal(RUN("note", "get", "m"), 1);
    assert_int_equal(RUN("forget", "m"), 1);
    assert_non_null(strstr(err_of(&last), "does not know it"));
}

/* By a pattern, nothing is forgotten unasked, and what somebody holds stays. */
static void all_that_match_are_forgotten(void **state)
{
    set_lease("1s", "4s");
    const char *const names[] = {"a-1", "a-2", "a-3", "b", "c*"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        assert_int_equal(RUN("note", "set", names[i], "x"), 0);
    assert_int_equal(RUN("forget", "a-*"), 64);
    assert_non_null(strstr(err_of(&last), "--yes"));
    process holder =
        START("--id", "holder", "run", "a-2", "--", "sh", "-c", "echo x > \"$0\"; read line", in_dir("up"));
    await_file(in_dir("up"));
    assert_int_equal(RUN("forget", "--yes", "a-?"), 75);
    assert_non_null(strstr(err_of(&last), "a-2: owned by holder"));
    assert_non_null(strstr(err_of(&last), "2 of 3 removed"));
    finish(&holder);
    assert_int_equal(RUN("forget", "--yes", "no*"), 1);
    terminal t = START_ON_TERMINAL("forget", "b*");
    await_shown(&t, "Remove 1 mutex like b*, 1 of them with a note?");
    assert_int_equal(write(t.fd, "n\n", 2), 2);
    assert_int_equal(finish_terminal(&t), 1);
    assert_int_equal(RUN("list", "--json"), 0);
    assert_non_null(strstr(out_of(&last), "\"a-2\""));
    assert_non_null(strstr(out_of(&last), "\"b\""));
    assert_null(strstr(out_of(&last), "\"a-1\""));
    assert_int_equal(RUN("forget", "--yes", "c\\*"), 0);
    assert_int_equal(RUN("forget", "--yes", "*"), 0);
    assert_int_equal(RUN("list", "--json"), 0);
    assert_string_equal(out_of(&last), "[]\n");
}

/* From one command to the next, with bytes that no variable can hold. */
static void commands_hand_on_notes(void **state)
{
    static const char script[] = "printf '%s,' \"${SIMBA_NOTE-unset}\"; cat \"$SIMBA_NOTE_FILE\"; "
                                 "printf 'two\\000x' > \"$SIMBA_NOTE_FILE\"";
    assert_int_equal(RUN("run", "m", "--", "sh", "-c", "printf '[%s]' \"$SIMBA_NOTE\"; printf one > $SIMBA_NOTE_FILE"),
                     0);
    assert_string_equal(out_of(&last), "[]");
    assert_int_equal(RUN("run", "m", "--", "sh", "-c", script), 0);
    assert_string_equal(out_of(&last), "one,one");
    assert_int_equal(
        RUN("run", "m", "--", "sh", "-c", "printf '%s,' \"${SIMBA_NOTE-unset}\"; wc -c < $SIMBA_NOTE_FILE"), 0);
    assert_string_equal(out_of(&last), "unset,5\n");
    assert_int_equal(RUN("list"), 0);
    assert_non_null(strstr(out_of(&last), "two\\x00x"));
    assert_int_equal(RUN("list", "--json"), 0);
    assert_non_null(strstr(out_of(&last), "\"note\":\"two\\u0000x\""));
}

/* A command that fails, or is ended, leaves the note as it was; one that leaves too much is told. */
static void only_what_ends_well_is_kept(void **state)
{
    assert_int_equal(RUN("note", "set", "m", "good"), 0);
    assert_int_equal(RUN("run", "m", "--", "sh", "-c", "echo bad > $SIMBA_NOTE_FILE; exit 3"), 3);
    assert_note("good");
    assert_int_equal(RUN("run", "m", "--", "sh", "-c", "echo bad > $SIMBA_NOTE_FILE; kill -KILL $$"), 128 + 9);
    assert_note("good");
    assert_int_equal(RUN("run", "m", "--", "sh", "-c", "head -c 1025 /dev/zero > $SIMBA_NOTE_FILE"), 65);
    assert_non_null(strstr(err_of(&last), "more than 1024 bytes"));
    assert_note("good");
    assert_int_equal(RUN("run", "m", "--", "sh", "-c", ": > $SIMBA_NOTE_FILE"), 0);
    assert_int_equal(RUN("note", "get", "m"), 1);
}

/* The variables are those of this command, not of a `simba run` around it. */
static void stale_variables_are_replaced(void **state)
{
    setenv("SIMBA_NOTE", "stale", 1);
    setenv("SIMBA_NOTE_FILE", "/stale", 1);
    assert_int_equal(RUN("run", "m", "--", "sh", "-c", "echo \"[$SIMBA_NOTE]\"; test \"$SIMBA_NOTE_FILE\" != /stale"),
                     0);
    unsetenv("SIMBA_NOTE");
    unsetenv("SIMBA_NOTE_FILE");
    assert_string_equal(out_of(&last), "[]\n");
}

static void elect_hands_on_notes(void **state)
{
    set_lease("1s", "4s");
    assert_int_equal(RUN("note", "set", "m", "found"), 0);
    char up[600];
    snprintf(up, sizeof up, "echo \"$SIMBA_NOTE\" > %s; printf led > $SIMBA_NOTE_FILE", in_dir("log"));
    process p =
        START("elect", "--on-acquired", up, "--on-released", "echo \"$SIMBA_NOTE left\" > $SIMBA_NOTE_FILE", "m");
    await_text_in(p.out_path, "acquired m");
    await_text_in(in_dir("log"), "found\n");
    const int64_t end_ns = now_ns() + TIMEOUT_MS * INT64_C(1000000);
    do { /* the note is kept when the command has ended */
        assert_int_equal(RUN("note", "get", "m"), 0);
        assert_true(now_ns() < end_ns);
    } while (strstr(out_of(&last), "led") == NULL);
    kill(p.pid, SIGTERM);
    assert_int_equal(finish(&p), 0);
    assert_note("led left\n");
}

/* On a terminal nothing of a note gets through, and it breaks no line. */
static void a_terminal_is_shown_what_fits(void **state)
{
    assert_int_equal(RUN("note", "set", "m", "red \033[31m and much longer than what is left of a line of 87 columns"),
                     0);
    terminal t = start_on_terminal_of(87, (const char *const[]){"list", NULL});
    assert_int_equal(finish_terminal(&t), 0);
    assert_non_null(strstr(t.text, "red \\x1B"));
    assert_null(strstr(t.text, "\033[31m"));
    assert_null(strstr(t.text, "columns"));
    t = START_ON_TERMINAL("note", "get", "m");
    assert_int_equal(finish_terminal(&t), 0);
    assert_non_null(strstr(t.text, "red \\x1B[31m and"));
}

int main(int argc, char **argv)
{
    helper_main(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST_WITH_STORE(set_and_get),
        TEST(mistakes_are_named),
        TEST(a_held_mutex_is_left_alone),
        TEST(all_that_match_are_forgotten),
        TEST(the_record_of_a_schedule_is_left_alone),
        TEST(commands_hand_on_notes),
        TEST(only_what_ends_well_is_kept),
        TEST(stale_variables_are_replaced),
        TEST(elect_hands_on_notes),
        TEST(a_terminal_is_shown_what_fits),
    };
    return cmocka_run_group_tests_name("note", tests, NULL, NULL);
}
