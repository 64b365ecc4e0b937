/* MySQL: a whole store, over libmariadb, to which a hostile server talks. The library blocks until it is answered, so the target
 * answers in the moment in which something is sent; after an answer that may leave the library waiting, it hangs up. */
#include <stdio.h>
#include <string.h>

#include "fuzz/scenario.h"
#include "fuzz/targets.h"
#include "fuzz/wires.h"
#include "lib/mysql_speech.h"
#include "stores/mysql/mysql.h"

enum { ASKED = 65536, HEADER = 4 };

/* What the server is in the middle of. */
static struct {
    fuzz_input *in;
    bool is_in[FUZZ_WIRES]; /* logged in */
} server;

static mysql_speech speech;

/* A packet of anything, whose length is now and then not its own. */
static void say_anything(fuzz_input *in, unsigned char number)
{
    char text[256];
    const size_t length = fuzz_text(in, text, 255);
    const size_t claimed = fuzz_below(in, 8) == 7 ? (size_t)fuzz_number(in) & 0xFFFFFF : length;
    const unsigned char head[HEADER] = {(unsigned char)claimed, (unsigned char)(claimed >> 8),
                                        (unsigned char)(claimed >> 16), number};
    mysql_put(&speech, head, HEADER);
    mysql_put(&speech, text, length);
}

static void send_speech(size_t wire, bool hangs_up)
{
    fuzz_wire_send(wire, speech.bytes, speech.length);
    if (hangs_up)
        fuzz_wire_close(wire);
}

static void greet(fuzz_input *in, size_t wire)
{
    const unsigned how = fuzz_below(in, 12);
    speech.length = 0;
    if (how == 11)
        say_anything(in, 0);
    else
        mysql_say_hello(&speech, how == 10 ? "mysql_old_password" : "mysql_native_password", fuzz_below(in, 8) == 7);
    if (how == 9)
        speech.length = fuzz_mangle(in, speech.bytes, speech.length);
    send_speech(wire, how >= 9);
}

/* Whoever wants to log in is let in, as a rule. */
static void let_in(fuzz_input *in, size_t wire)
{
    static const char *const plugins[] = {"mysql_native_password", "client_ed25519", "caching_sha2_password", "dialog"};
    const unsigned how = fuzz_below(in, 16);
    speech.length = 0;
    speech.number = 2;
    if (how == 15) {
        say_anything(in, 2);
    } else if (how == 14) {
        mysql_say_error(&speech, 1045, "no");
    } else if (how == 13) {
        const char *plugin = plugins[fuzz_below(in, 4)];
        char data[64];
        mysql_begin(&speech);
        mysql_put_number(&speech, 254, 1);
        mysql_put(&speech, plugin, strlen(plugin) + 1);
        mysql_put(&speech, data, fuzz_text(in, data, 63));
        mysql_end(&speech);
    } else {
        mysql_say_ok(&speech, false);
        server.is_in[wire] = true;
    }
    if (how == 12)
        speech.length = fuzz_mangle(in, speech.bytes, speech.length);
    send_speech(wire, how >= 12);
}

static mysql_twist draw_twist(fuzz_input *in)
{
    mysql_twist twist = {.kind = (mysql_twist_kind)fuzz_below(in, MYSQL_TWISTS)};
    twist.column = fuzz_below(in, 15);
    twist.number = fuzz_below(in, 2) ? fuzz_byte(in) : (uint64_t)fuzz_number(in);
    /* How much the library allocates for columns is a matter of its own. */
    if (twist.kind == MYSQL_TEXT_WIDTH || twist.kind == MYSQL_ROW_WIDTH || twist.kind == MYSQL_WIDTH_ALONE)
        twist.number &= 1023;
    return twist;
}

static mysql_row draw_row(fuzz_input *in)
{
    const unsigned owner = fuzz_below(in, SCENARIO_IDS + 1);
    mysql_row row = {.owner = owner < SCENARIO_IDS ? scenario_ids[owner] : "",
                     .now_ms = 1700000000000,
                     .version = fuzz_below(in, 8),
                     .nonce = fuzz_below(in, 4)};
    row.until_ms = row.now_ms + 1000 * (int64_t)fuzz_below(in, 16);
    if (fuzz_below(in, 16) == 15)
        row.until_ms = fuzz_number(in);
    return row;
}

static void answer(fuzz_input *in, size_t wire, const unsigned char *asked, size_t length)
{
    static const unsigned errors[] = {1146, 1142, 1290, 1205, 1213, 1406, 1927, 1153};
    const unsigned how = fuzz_below(in, 24);
    const mysql_row row = draw_row(in);
    const mysql_twist twist = how == 20 ? draw_twist(in) : (mysql_twist){.kind = MYSQL_HONEST};
    speech.length = 0;
    if (!mysql_answer(&speech, asked, length, &row, &twist))
        return;
    if (how >= 21) {
        if (how == 21)
            speech.length = fuzz_mangle(in, speech.bytes, speech.length);
        else
            speech.length = 0;
        speech.number = 1;
        if (how == 22)
            say_anything(in, 1);
        else if (how == 23)
            mysql_say_error(&speech, errors[fuzz_below(in, 8)], "because");
    }
    send_speech(wire, how >= 20 && how < 23);
}

static void stirred(size_t wire, bool is_new)
{
    static unsigned char asked[ASKED];
    if (is_new) {
        server.is_in[wire] = false;
        greet(server.in, wire);
        return;
    }
    const size_t length = fuzz_wire_take(wire, asked, sizeof asked);
    for (size_t at = 0; at + HEADER <= length;) {
        const size_t size = asked[at] | (size_t)asked[at + 1] << 8 | (size_t)asked[at + 2] << 16;
        const size_t end = at + HEADER + size < length ? at + HEADER + size : length;
        if (server.is_in[wire])
            answer(server.in, wire, asked + at + HEADER, end - at - HEADER);
        else
            let_in(server.in, wire);
        at = end;
    }
}

static void hang_up(fuzz_input *in, size_t wire)
{
    (void)in;
    fuzz_wire_close(wire);
}

void fuzz_mysql(const uint8_t *data, size_t size)
{
    static const char *const urls[] = {"mysql://u:p@127.0.0.1:3306/db", "mysql://u@127.0.0.1:3306/db?create=yes",
                                       "mysql://u:p@127.0.0.1:3306/db?tls=yes&verify=no"};
    static const scenario_server spoken = {.interrupt = hang_up};
    fuzz_input in = {data, size};
    scenario played;
    /* With TLS the library reads all certificates of the system for each connection, which takes longer than all the rest. */
    setenv("SSL_CERT_FILE", "/dev/null", 1);
    setenv("SSL_CERT_DIR", "/dev/null", 1);
    server.in = &in;
    fuzz_wire_stirred = stirred;
    fuzz_wire_takes_its_time = true;
    FUZZ_CHECK(scenario_begin(&played, &simba__backend_mysql, urls[fuzz_below(&in, 3)]));
    while (in.left > 0) {
        scenario_step(&played, &in, &spoken);
        if (fuzz_below(&in, 4))
            scenario_settle(&played);
    }
    scenario_settle(&played);
    scenario_end(&played);
    fuzz_wires_end();
}
