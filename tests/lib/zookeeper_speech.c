/* See zookeeper_speech.h. */
#include "lib/zookeeper_speech.h"

#include <string.h>

void zk_put(zk_speech *s, const void *bytes, size_t length)
{
    if (length > 0 && length <= ZK_SPEECH - s->length) {
        memcpy(s->bytes + s->length, bytes, length);
        s->length += length;
    }
}

void zk_put_number(zk_speech *s, uint64_t number, size_t size)
{
    for (size_t i = size; i-- > 0;)
        zk_put(s, &(unsigned char){(unsigned char)(number >> 8 * i)}, 1);
}

void zk_put_text(zk_speech *s, const char *text, size_t length)
{
    zk_put_number(s, length, 4);
    zk_put(s, text, length);
}

void zk_put_stat(zk_speech *s, const zk_speech_stat *stat)
{
    zk_put_number(s, stat->czxid, 8);
    zk_put_number(s, stat->czxid, 8);
    zk_put_number(s, (uint64_t)stat->ctime_ms, 8);
    zk_put_number(s, (uint64_t)stat->mtime_ms, 8);
    zk_put_number(s, stat->version, 4);
    zk_put_number(s, 0, 8); /* versions of its children and rights */
    zk_put_number(s, stat->owner, 8);
    zk_put_number(s, 0, 8); /* how long its data are, how many children it has */
    zk_put_number(s, stat->czxid, 8);
}

void zk_begin(zk_speech *s)
{
    s->message = s->length;
    zk_put_number(s, 0, 4);
}

void zk_end(zk_speech *s)
{
    const size_t length = s->length;
    s->length = s->message;
    zk_put_number(s, length - s->message - 4, 4);
    s->length = length;
}

void zk_begin_reply(zk_speech *s, int32_t xid, int64_t zxid, int32_t error)
{
    zk_begin(s);
    zk_put_number(s, (uint32_t)xid, 4);
    zk_put_number(s, (uint64_t)zxid, 8);
    zk_put_number(s, (uint32_t)error, 4);
}
