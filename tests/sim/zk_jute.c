/* ZooKeeper's encoding: numbers with the highest byte first, texts behind their length. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "sim/zk_model.h"

static void take(jute_in *in, void *out, size_t size)
{
    if ((size_t)(in->end - in->at) < size)
        abort(); /* the client library has sent something that we do not understand */
    memcpy(out, in->at, size);
    in->at += size;
}

int32_t jute_int(jute_in *in)
{
    uint32_t number;
    take(in, &number, sizeof number);
    return (int32_t)be32toh(number);
}

int64_t jute_long(jute_in *in)
{
    uint64_t number;
    take(in, &number, sizeof number);
    return (int64_t)be64toh(number);
}

bool jute_bool(jute_in *in)
{
    char value;
    take(in, &value, 1);
    return value != 0;
}

size_t jute_text(jute_in *in, char *out, size_t size)
{
    const int32_t length = jute_int(in);
    if (length <= 0) {
        out[0] = '\0';
        return 0;
    }
    if ((size_t)length >= size)
        abort();
    take(in, out, (size_t)length);
    out[length] = '\0';
    return (size_t)length;
}

static void put(jute_out *out, const void *data, size_t size)
{
    if (out->length + size > sizeof out->bytes)
        abort();
    memcpy(out->bytes + out->length, data, size);
    out->length += size;
}

void jute_put_int(jute_out *out, int32_t number)
{
    const uint32_t bytes = htobe32((uint32_t)number);
    put(out, &bytes, sizeof bytes);
}

void jute_put_long(jute_out *out, int64_t number)
{
    const uint64_t bytes = htobe64((uint64_t)number);
    put(out, &bytes, sizeof bytes);
}

void jute_put_bool(jute_out *out, bool value)
{
    const char byte = value;
    put(out, &byte, 1);
}

void jute_put_text(jute_out *out, const char *text, size_t length)
{
    jute_put_int(out, (int32_t)length);
    put(out, text, length);
}
