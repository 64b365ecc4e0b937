/* What a server says first: which of it the client library may be given. */
#include <string.h>

#include "lib/cm.h"
#include "lib/mysql_speech.h"

#include "stores/mysql/greeting.h"

static mysql_speech hello;

static int setup(void **state)
{
    (void)state;
    hello.length = 0;
    mysql_say_hello(&hello, "mysql_native_password", false);
    return 0;
}

static simba__my_greeting read_packet(size_t size)
{
    unsigned char bytes[MYSQL_SPEECH];
    memcpy(bytes, hello.bytes, size);
    bytes[0] = (unsigned char)(size - 4);
    bytes[1] = (unsigned char)((size - 4) >> 8);
    return simba__my_greeting_read(bytes, size);
}

static void set_version(const char *version)
{
    mysql_speech with = {.length = 5};
    memcpy(with.bytes, hello.bytes, 5);
    mysql_put(&with, version, strlen(version) + 1);
    const size_t rest = 5 + strlen((const char *)hello.bytes + 5) + 1;
    mysql_put(&with, hello.bytes + rest, hello.length - rest);
    hello = with;
}

static void offers_tls_or_not(void **state)
{
    (void)state;
    assert_int_equal(simba__my_greeting_read(hello.bytes, hello.length), SIMBA__MY_GREETING_PLAIN);
    hello.length = 0;
    mysql_say_hello(&hello, "caching_sha2_password", true);
    assert_int_equal(simba__my_greeting_read(hello.bytes, hello.length), SIMBA__MY_GREETING_TLS);
}

/* As long as the packet is not there, nobody can tell. */
static void is_waited_for(void **state)
{
    (void)state;
    for (size_t size = 0; size < hello.length; size++)
        assert_int_equal(simba__my_greeting_read(hello.bytes, size), SIMBA__MY_GREETING_PARTIAL);
}

/* A packet that ends before all that the library reads of it is there. */
static void ends_too_early(void **state)
{
    (void)state;
    const size_t plugin = sizeof "mysql_native_password";
    for (size_t size = 5; size < hello.length - plugin; size++)
        assert_int_equal(read_packet(size), SIMBA__MY_GREETING_BROKEN);
    assert_int_equal(read_packet(hello.length - 1), SIMBA__MY_GREETING_PLAIN); /* old servers leave out the NUL */
    assert_int_equal(simba__my_greeting_read((const unsigned char *)"\0\0\0\0\12", 5), SIMBA__MY_GREETING_BROKEN);
    assert_int_equal(simba__my_greeting_read((const unsigned char *)"\xFF\xFF\xFF\0\12", 5), SIMBA__MY_GREETING_BROKEN);
}

static void about_versions(void **state)
{
    (void)state;
    static const char *const good[] = {"8.0.36", "5.7.44-log", "5.5.5-10.11.6-MariaDB-1", "11.4.2-MariaDB",
                                       "8.0.11-TiDB-v7"};
    static const char *const bad[] = {"", "8", "8.0", "8.0.", "8..0", ".0.36", "MariaDB", "5.5.5-", "5.5.5-11"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        set_version(good[i]);
        assert_int_equal(read_packet(hello.length), SIMBA__MY_GREETING_PLAIN);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        set_version(bad[i]);
        assert_int_equal(read_packet(hello.length), SIMBA__MY_GREETING_BROKEN);
    }
}

/* A server that refuses us says so by an error; an old protocol is known by its number, and a later one is none of ours. */
static void about_refusals(void **state)
{
    (void)state;
    mysql_speech error = {.length = 0};
    mysql_say_error(&error, 1040, "Too many connections");
    assert_int_equal(simba__my_greeting_read(error.bytes, error.length), SIMBA__MY_GREETING_REFUSAL);
    static const unsigned char without_number[] = {3, 0, 0, 0, 0xFF, 1, 1};
    static const unsigned char half_a_state[] = {6, 0, 0, 0, 0xFF, 1, 1, '#', 'H', 'Y'};
    assert_int_equal(simba__my_greeting_read(without_number, sizeof without_number), SIMBA__MY_GREETING_BROKEN);
    assert_int_equal(simba__my_greeting_read(half_a_state, sizeof half_a_state), SIMBA__MY_GREETING_BROKEN);
    error.length = error.number = 0;
    mysql_say_error(&error, 0xFFFF, "is no error, but a report of progress");
    assert_int_equal(simba__my_greeting_read(error.bytes, error.length), SIMBA__MY_GREETING_BROKEN);
    hello.bytes[4] = 9;
    assert_int_equal(read_packet(hello.length), SIMBA__MY_GREETING_REFUSAL);
    hello.bytes[4] = 11;
    assert_int_equal(read_packet(hello.length), SIMBA__MY_GREETING_BROKEN);
}

/* The capabilities without which the library reads something else, and the length of a scramble that does not fit. */
static void about_capabilities(void **state)
{
    (void)state;
    const size_t rest = 5 + strlen((const char *)hello.bytes + 5) + 1;
    const size_t capabilities = rest + 13, length = rest + 20;
    const unsigned char before = hello.bytes[capabilities + 1];
    hello.bytes[capabilities + 1] &= (unsigned char)~0x80; /* SECURE_CONNECTION */
    assert_int_equal(read_packet(hello.length), SIMBA__MY_GREETING_BROKEN);
    hello.bytes[capabilities + 1] = before;
    hello.bytes[length] = 200;
    assert_int_equal(read_packet(hello.length), SIMBA__MY_GREETING_BROKEN);
    hello.bytes[length] = 0;
    assert_int_equal(read_packet(hello.length), SIMBA__MY_GREETING_BROKEN);
    hello.bytes[rest + 13 + 5] = 0; /* no plugins: then it does not matter, but the scramble has to be there */
    assert_int_equal(read_packet(hello.length), SIMBA__MY_GREETING_PLAIN);
    assert_int_equal(read_packet(rest + 31 + 13), SIMBA__MY_GREETING_PLAIN);
    assert_int_equal(read_packet(rest + 31 + 12), SIMBA__MY_GREETING_BROKEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(offers_tls_or_not, setup), cmocka_unit_test_setup(is_waited_for, setup),
        cmocka_unit_test_setup(ends_too_early, setup),    cmocka_unit_test_setup(about_versions, setup),
        cmocka_unit_test_setup(about_refusals, setup),    cmocka_unit_test_setup(about_capabilities, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
