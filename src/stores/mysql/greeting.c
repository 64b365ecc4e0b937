/* See greeting.h. */
#include "stores/mysql/greeting.h"

#include <mysql.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A packet begins with three bytes of length and one of number. Then come the version of the protocol, the server's version as
 * a string, and these, from the end of that string on. */
enum {
    HEADER = 4,
    PROTOCOL_10 = 10,
    PROTOCOL_ERROR = 0xFF,
    SQLSTATE = 6, /* of an error, with its mark */
    PROGRESS = 0xFFFF,

    SCRAMBLE = 4, /* after the connection's number */
    SCRAMBLE_BYTES = 8,
    CAPABILITIES = SCRAMBLE + SCRAMBLE_BYTES + 1,
    CAPABILITIES_ABOVE = CAPABILITIES + 5, /* the upper half */
    SCRAMBLE_LENGTH_AT = CAPABILITIES + 7, /* of both parts together, with a NUL */
    SCRAMBLE_REST = CAPABILITIES + 18,
    SCRAMBLE_REST_BYTES = 13,
    SCRAMBLE_LENGTH_LEAST = 20,
};

static const unsigned char *skip_number(const unsigned char *at, const unsigned char *end)
{
    const unsigned char *const begin = at;
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at > begin ? at : NULL;
}

/* "8.0.36-log", or "5.5.5-10.11.6-MariaDB". The library reads three numbers, and goes on past the end if there are fewer. */
static bool is_version(const unsigned char *at, const unsigned char *end)
{
    static const char hack[] = "5.5.5-"; /* which it leaves out */
    const size_t hack_length = sizeof hack - 1;
    if ((size_t)(end - at) >= hack_length && memcmp(at, hack, hack_length) == 0)
        at += hack_length;
    for (int i = 0; i < 3; i++) {
        if (i > 0 && (at == end || *at++ != '.'))
            return false;
        if (!(at = skip_number(at, end)))
            return false;
    }
    return true;
}

static uint32_t number_at(const unsigned char *at)
{
    return (uint32_t)(at[0] | at[1] << 8);
}

/* The number of an error, and perhaps its SQLSTATE, must be there. One number is no error but a report of progress, for which the
 * library looks into the version of a server that it does not know yet. */
static simba__my_greeting read_error(const unsigned char *at, const unsigned char *end)
{
    const size_t size = (size_t)(end - at);
    const bool is_whole = size >= 4 && (at[3] != '#' || size >= 3 + SQLSTATE);
    return is_whole && number_at(at + 1) != PROGRESS ? SIMBA__MY_GREETING_REFUSAL : SIMBA__MY_GREETING_BROKEN;
}

/* From the server's version on. */
static simba__my_greeting read_protocol_10(const unsigned char *at, const unsigned char *end)
{
    const uint32_t needed = CLIENT_PROTOCOL_41 | CLIENT_SECURE_CONNECTION;
    const unsigned char *const version_end = memchr(at, '\0', (size_t)(end - at));
    if (!version_end || !is_version(at, version_end))
        return SIMBA__MY_GREETING_BROKEN;
    const unsigned char *const rest = version_end + 1;
    if (end - rest < SCRAMBLE_REST + SCRAMBLE_REST_BYTES)
        return SIMBA__MY_GREETING_BROKEN;
    const uint32_t capabilities = number_at(rest + CAPABILITIES) | number_at(rest + CAPABILITIES_ABOVE) << 16;
    const ptrdiff_t length = rest[SCRAMBLE_LENGTH_AT];
    const bool has_plugin = (capabilities & CLIENT_PLUGIN_AUTH) != 0;
    if ((capabilities & needed) != needed)
        return SIMBA__MY_GREETING_BROKEN;
    if (has_plugin && (length < SCRAMBLE_LENGTH_LEAST || end - rest < SCRAMBLE_REST - SCRAMBLE_BYTES + length))
        return SIMBA__MY_GREETING_BROKEN;
    return capabilities & CLIENT_SSL ? SIMBA__MY_GREETING_TLS : SIMBA__MY_GREETING_PLAIN;
}

simba__my_greeting simba__my_greeting_read(const unsigned char *bytes, size_t size)
{
    if (size <= HEADER)
        return SIMBA__MY_GREETING_PARTIAL;
    const size_t packet_end = HEADER + (bytes[0] | (size_t)bytes[1] << 8 | (size_t)bytes[2] << 16);
    if (packet_end <= HEADER || packet_end > SIMBA__MY_GREETING_BYTES)
        return SIMBA__MY_GREETING_BROKEN;
    if (size < packet_end)
        return SIMBA__MY_GREETING_PARTIAL;
    const unsigned protocol = bytes[HEADER];
    if (protocol == PROTOCOL_ERROR)
        return read_error(bytes + HEADER, bytes + packet_end);
    if (protocol < PROTOCOL_10)
        return SIMBA__MY_GREETING_REFUSAL;
    /* A later one the library would take for this one. */
    return protocol == PROTOCOL_10 ? read_protocol_10(bytes + HEADER + 1, bytes + packet_end)
                                   : SIMBA__MY_GREETING_BROKEN;
}
