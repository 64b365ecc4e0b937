/* The parser of replies, with bounds. hiredis believes a server: it allocates as many elements as an array claims,
 * keeps as many bytes as a string claims, and frees nested replies by recursion. A broken or hostile server must not
 * cost us more than a few megabytes. So this code refuses a reply that is larger than any answer to our commands before
 * it reads it. */
#include "backends/redis/reader.h"

#include <string.h>

#include "util/mem.h"

enum {
    BYTES_MOST = 8 << 20, /* of one reply. The largest: CLUSTER SLOTS with every slot on its own, or a page of SCAN */
    ELEMENTS_MOST = 256 << 10, /* of one reply, with the elements of nested arrays */
    DEPTH_MOST = 6,            /* CLUSTER SLOTS has four */
    LINE_MOST = 64 << 10,      /* whenever more of a line has come, hiredis looks for its end from its beginning */
};

#if HIREDIS_MAJOR >= 1
typedef size_t array_length;
#else
typedef int array_length;
#endif

struct redis_reader {
    redisReader *parser;
    redisReplyObjectFunctions make;         /* those of hiredis */
    redisReplyObjectFunctions make_bounded; /* they count first */
    size_t bytes;                           /* of the reply that it reads now */
    size_t elements;
};

/* --- counting --------------------------------------------------------------------------------------- */

static unsigned depth_of(const redisReadTask *task)
{
    unsigned depth = 0;
    for (; task && depth <= DEPTH_MOST; task = task->parent)
        depth++;
    return depth;
}

/* Returns the reader if it may take `count` more elements; NULL: the reply is too large. */
static redis_reader *admit(const redisReadTask *task, size_t count)
{
    redis_reader *reader = task->privdata;
    if (count > ELEMENTS_MOST - reader->elements || depth_of(task) > DEPTH_MOST)
        return NULL;
    reader->elements += count;
    return reader;
}

static void *make_string(const redisReadTask *task, char *text, size_t length)
{
    const redis_reader *reader = admit(task, 0);
    return reader ? reader->make.createString(task, text, length) : NULL;
}

static void *make_array(const redisReadTask *task, array_length elements)
{
    const redis_reader *reader = admit(task, (size_t)elements);
    return reader ? reader->make.createArray(task, elements) : NULL;
}

static void *make_integer(const redisReadTask *task, long long number)
{
    const redis_reader *reader = admit(task, 0);
    return reader ? reader->make.createInteger(task, number) : NULL;
}

static void *make_nil(const redisReadTask *task)
{
    const redis_reader *reader = admit(task, 0);
    return reader ? reader->make.createNil(task) : NULL;
}

/* --- the reader ------------------------------------------------------------------------------------- */

redis_reader *simba__redis_reader_new(void)
{
    redis_reader *reader = simba__calloc(1, sizeof *reader);
    redisReader *parser = reader ? redisReaderCreate() : NULL;
    if (!parser) {
        simba__free(reader);
        return NULL;
    }
    reader->parser = parser;
    reader->make = reader->make_bounded = *parser->fn;
    reader->make_bounded.createString = make_string;
    reader->make_bounded.createArray = make_array;
    reader->make_bounded.createInteger = make_integer;
    reader->make_bounded.createNil = make_nil;
    parser->fn = &reader->make_bounded;
    parser->privdata = reader;
    return reader;
}

void simba__redis_reader_free(redis_reader *reader)
{
    if (!reader)
        return;
    redisReaderFree(reader->parser);
    simba__free(reader);
}

int simba__redis_reader_feed(redis_reader *reader, const char *data, size_t length)
{
    if (length > BYTES_MOST - reader->bytes)
        return SIMBA_ECORRUPT;
    reader->bytes += length;
    return redisReaderFeed(reader->parser, data, length) == REDIS_OK ? 0 : SIMBA_ENOMEM;
}

/* True if the bytes that could not be parsed yet begin a line that is too long. */
static bool has_endless_line(const redisReader *parser)
{
    const size_t left = parser->len - parser->pos;
    return left > LINE_MOST && !memchr(parser->buf + parser->pos, '\r', LINE_MOST);
}

int simba__redis_reader_next(redis_reader *reader, redisReply **ret_reply)
{
    void *reply = NULL;
    if (redisReaderGetReply(reader->parser, &reply) != REDIS_OK)
        return SIMBA_ECORRUPT;
    if (reply)
        reader->bytes = reader->elements = 0;
    else if (has_endless_line(reader->parser))
        return SIMBA_ECORRUPT;
    *ret_reply = reply;
    return 0;
}
