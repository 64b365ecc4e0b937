/* A connection to a server that the test plays: what the owner hears, and how often the socket is read for it. */
#include "net/link.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/cm.h"
#include "lib/testhost.h"
#include "util/clock.h"

extern const simba_backend simba__backend_memory;

/* Both ends. */
static struct {
    testhost host;
    simba__links links;
    simba__link link; /* ours */
    int listening, server;
    unsigned reads; /* of any socket */
    bool up, down;
    char heard[65536];
    size_t length;
} f;

/* Stands before the C library's. */
ssize_t recv(int fd, void *bytes, size_t size, int flags)
{
    static ssize_t (*real)(int, void *, size_t, int);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "recv");
    f.reads++;
    return real(fd, bytes, size, flags);
}

static void on_find(simba__link *link)
{
    simba__link_found(link);
}

static void on_up(simba__link *link)
{
    (void)link;
    f.up = true;
}

static void on_bytes(simba__link *link, const char *data, size_t length)
{
    (void)link;
    assert_true(f.length + length <= sizeof f.heard);
    memcpy(f.heard + f.length, data, length);
    f.length += length;
}

static void on_down(simba__link *link)
{
    (void)link;
    f.down = true;
}

static void on_tick(simba__link *link, simba_local now)
{
    (void)link;
    (void)now;
}

static void on_looked_up(simba__links *links)
{
    (void)links;
}

static int setup(void **state)
{
    static const simba__link_events events = {on_find, on_up, on_bytes, on_down, on_tick};
    char folder[] = "/tmp/simba-link-XXXXXX";
    char path[64];
    simba_error err;
    (void)state;
    memset(&f, 0, sizeof f);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/socket", folder);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, path);
    f.listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(f.listening, (const struct sockaddr *)(const void *)&address, sizeof address), 0);
    assert_int_equal(listen(f.listening, 1), 0);
    assert_int_equal(testhost_open(&f.host, &simba__backend_memory, "memory://link", &err), 0);
    f.links = (simba__links){.host = &f.host.host, .kind = "played", .looked_up = on_looked_up};
    assert_int_equal(simba__link_init(&f.link, &f.links, &events, 10 * INT64_C(1000000000)), 0);
    assert_int_equal(simba__endpoint_set_socket(&f.link.at, "played", path, &err), 0);
    simba__link_open(&f.link);
    f.server = accept(f.listening, NULL, NULL);
    assert_true(f.server >= 0);
    assert_true(testhost_pump(&f.host, &f.up, 10000));
    unlink(path);
    rmdir(folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    simba__link_close(&f.link);
    simba__link_fini(&f.link);
    testhost_close(&f.host);
    if (f.server >= 0)
        close(f.server);
    close(f.listening);
    return 0;
}

static void server_says(const char *text)
{
    assert_int_equal(write(f.server, text, strlen(text)), strlen(text));
}

static void server_leaves(void)
{
    close(f.server);
    f.server = -1;
}

static void an_answer_is_read_by_one_call(void **state)
{
    (void)state;
    for (unsigned i = 1; i <= 3; i++) {
        server_says("+OK\r\n");
        testhost_settle(&f.host);
        assert_int_equal(f.length, 5 * i);
        assert_int_equal(f.reads, i);
    }
    assert_false(f.down);
}

/* Nobody tells us again: so the end has to be read with the answer. */
static void an_end_behind_an_answer_is_noticed(void **state)
{
    (void)state;
    server_says("+OK\r\n");
    server_leaves();
    testhost_settle(&f.host);
    assert_int_equal(f.length, 5);
    assert_true(f.down);
    assert_non_null(strstr(f.link.error.text, "connection lost: the server closed it"));
}

static void an_end_after_an_answer_is_noticed(void **state)
{
    (void)state;
    server_says("+OK\r\n");
    testhost_settle(&f.host);
    assert_false(f.down);
    server_leaves();
    testhost_settle(&f.host);
    assert_true(f.down);
}

/* More than a read takes, and a whole number of them. */
static void long_answers_are_read_whole(void **state)
{
    static char text[2 * 16384 + 1];
    (void)state;
    memset(text, 'x', sizeof text - 1);
    server_says(text);
    testhost_settle(&f.host);
    assert_int_equal(f.length, sizeof text - 1);
    server_says("+OK\r\n");
    testhost_settle(&f.host);
    assert_int_equal(f.length, sizeof text - 1 + 5);
    assert_memory_equal(f.heard + sizeof text - 1, "+OK\r\n", 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_answer_is_read_by_one_call, setup, teardown),
        cmocka_unit_test_setup_teardown(an_end_behind_an_answer_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(an_end_after_an_answer_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(long_answers_are_read_whole, setup, teardown),
    };
    return cmocka_run_group_tests_name("link", tests, NULL, NULL);
}
