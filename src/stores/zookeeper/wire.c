/* ZooKeeper's protocol as bytes. Pure: requests become bytes, and bytes of a server become values, or are refused.
 *
 * A message is a length and that many bytes. Numbers have the highest byte first; texts and buffers are a length and bytes, and
 * the length -1 stands for none. A request is `xid, type, body`, a reply `xid, zxid, error, body`. The body of a reply is empty if
 * the error is not 0, except for a MULTI. A reader here believes no length and no number before it has found as many bytes, and
 * wants the message to be used up exactly. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "stores/zookeeper/zookeeper.h"
#include "util/assert.h"
#include "util/mem.h"

/* --- requests ----------------------------------------------------------------------------------------------- */

static void put_int(simba__buffer *out, int32_t number)
{
    const uint32_t bytes = htobe32((uint32_t)number);
    simba__buffer_put(out, &bytes, sizeof bytes);
}

static void put_long(simba__buffer *out, int64_t number)
{
    const uint64_t bytes = htobe64((uint64_t)number);
    simba__buffer_put(out, &bytes, sizeof bytes);
}

static void put_bool(simba__buffer *out, bool value)
{
    simba__buffer_put(out, value ? "\1" : "\0", 1);
}

static void put_bytes(simba__buffer *out, const void *data, size_t length)
{
    put_int(out, (int32_t)length);
    simba__buffer_put(out, data, length);
}

static void put_text(simba__buffer *out, const char *text)
{
    put_bytes(out, text, strlen(text));
}

/* Begin a message whose length is not known yet; `end` sets it. */
static size_t begin(simba__buffer *out)
{
    const size_t at = out->length;
    put_int(out, 0);
    return at;
}

static void end(simba__buffer *out, size_t at)
{
    if (out->failed)
        return;
    const uint32_t length = htobe32((uint32_t)(out->length - at - sizeof length));
    memcpy(out->data + at, &length, sizeof length);
}

void simba__zk_put_hello(simba__buffer *out, int64_t zxid, int32_t timeout_ms, int64_t id,
                         const char password[ZK_PASSWORD])
{
    const size_t at = begin(out);
    put_int(out, 0); /* the version of the protocol */
    put_long(out, zxid);
    put_int(out, timeout_ms);
    put_long(out, id);
    put_bytes(out, password, ZK_PASSWORD);
    put_bool(out, false); /* a server that can only read is of no use */
    end(out, at);
}

void simba__zk_put_auth(simba__buffer *out, const char *digest)
{
    const size_t at = begin(out);
    put_int(out, ZK_XID_AUTH);
    put_int(out, ZK_AUTH);
    put_int(out, 0);
    put_text(out, "digest");
    put_text(out, digest);
    end(out, at);
}

static void put_acl(simba__buffer *out, zk_acl acl)
{
    enum { ALL = 0x1f, READ = 1 };
    put_int(out, acl == ZK_ACL_READ ? 2 : 1);
    put_int(out, ALL);
    put_text(out, acl == ZK_ACL_OPEN ? "world" : "auth");
    put_text(out, acl == ZK_ACL_OPEN ? "anyone" : "");
    if (acl != ZK_ACL_READ)
        return;
    put_int(out, READ);
    put_text(out, "world");
    put_text(out, "anyone");
}

static void put_body(simba__buffer *out, const zk_request *r)
{
    enum { STAYS = 0, EPHEMERAL_SEQUENTIAL = 3, CONTAINER = 4 };
    switch (r->type) {
    case ZK_CREATE:
    case ZK_CREATE2:
    case ZK_CREATE_CONTAINER:
        put_text(out, r->path);
        put_bytes(out, r->data, r->length);
        put_acl(out, r->acl);
        put_int(out, r->type == ZK_CREATE ? STAYS : r->type == ZK_CREATE2 ? EPHEMERAL_SEQUENTIAL : CONTAINER);
        break;
    case ZK_EXISTS:
    case ZK_GET:
    case ZK_CHILDREN:
        put_text(out, r->path);
        put_bool(out, r->watch);
        break;
    case ZK_SET:
        put_text(out, r->path);
        put_bytes(out, r->data, r->length);
        put_int(out, r->version);
        break;
    case ZK_DELETE:
    case ZK_CHECK:
        put_text(out, r->path);
        put_int(out, r->version);
        break;
    case ZK_SYNC:
        put_text(out, r->path);
        break;
    case ZK_MULTI:
        for (size_t i = 0; i < 2; i++) {
            put_int(out, r->parts[i].type);
            put_bool(out, false);
            put_int(out, -1);
            put_body(out, &r->parts[i]);
        }
        put_int(out, -1);
        put_bool(out, true);
        put_int(out, -1);
        break;
    case ZK_AUTH:
    case ZK_CLOSE:
        break;
    }
}

void simba__zk_put_request(simba__buffer *out, int32_t xid, const zk_request *request)
{
    const size_t at = begin(out);
    put_int(out, xid);
    put_int(out, request->type);
    put_body(out, request);
    end(out, at);
}

/* --- what a server says ------------------------------------------------------------------------------------- */

/* The rest of a message. After a number or a text that is not there, `bad` is set and everything is 0. */
typedef struct reader {
    char *at, *end;
    bool bad;
} reader;

static bool take(reader *in, void *ret_bytes, size_t size)
{
    if (in->bad || (size_t)(in->end - in->at) < size) {
        in->bad = true;
        memset(ret_bytes, 0, size);
        return false;
    }
    memcpy(ret_bytes, in->at, size);
    in->at += size;
    return true;
}

static int32_t take_int(reader *in)
{
    uint32_t number;
    take(in, &number, sizeof number);
    return (int32_t)be32toh(number);
}

static int64_t take_long(reader *in)
{
    uint64_t number;
    take(in, &number, sizeof number);
    return (int64_t)be64toh(number);
}

static bool take_bool(reader *in)
{
    char value;
    take(in, &value, sizeof value);
    return value != 0;
}

/* The bytes move one place to the front, over their length, so that there is room for a zero byte behind them. */
static char *take_text(reader *in, size_t *ret_length)
{
    const int32_t length = take_int(in);
    *ret_length = 0;
    if (in->bad || length < -1 || (length > 0 && length > in->end - in->at)) {
        in->bad = true;
        return NULL;
    }
    char *text = in->at - 1;
    *ret_length = length > 0 ? (size_t)length : 0;
    memmove(text, in->at, *ret_length);
    text[*ret_length] = '\0';
    in->at += *ret_length;
    return text;
}

/* A name or a path: at least one character, and no zero byte. */
static char *take_name(reader *in)
{
    size_t length;
    char *name = take_text(in, &length);
    if (!in->bad && (length == 0 || strlen(name) != length))
        in->bad = true;
    return in->bad ? NULL : name;
}

static zk_stat take_stat(reader *in)
{
    zk_stat stat = {.czxid = take_long(in), .mzxid = take_long(in)};
    stat.ctime_ms = simba__zk_time_ms(take_long(in));
    stat.mtime_ms = simba__zk_time_ms(take_long(in));
    stat.version = take_int(in);
    take_int(in); /* how often children were made or removed, */
    take_int(in); /* and who may do what was changed */
    stat.session = take_long(in);
    take_int(in);  /* bytes of data, */
    take_int(in);  /* children, */
    take_long(in); /* and the latest change of those */
    return stat;
}

static int compare(const void *a, const void *b)
{
    return simba__zk_order(*(const char *const *)a, *(const char *const *)b);
}

static void take_names(reader *in, zk_result *result)
{
    enum { LEAST = sizeof(int32_t) + 1 }; /* bytes of a name */
    const int32_t count = take_int(in);
    if (in->bad || count < 0 || count > ZK_NAMES_MOST || (in->end - in->at) / LEAST < count) {
        in->bad = true;
        return;
    }
    result->names = count > 0 ? simba__malloc((size_t)count * sizeof *result->names) : NULL;
    if (count > 0 && !result->names) {
        result->error = ZK_NO_MEMORY;
        in->at = in->end;
        return;
    }
    for (int32_t i = 0; i < count; i++) {
        const char *name = take_name(in);
        if (!name || strchr(name, '/')) {
            in->bad = true;
            return;
        }
        result->names[result->count++] = name;
        result->contenders += simba__zk_is_contender(name);
    }
    if (count > 1)
        qsort(result->names, result->count, sizeof *result->names, compare);
}

/* Each result of a transaction that was carried out has the type of its part. Otherwise each is an error: 0 before the part that
 * failed, the reason, and INCONSISTENT after it. */
static void take_parts(reader *in, zk_type last, zk_result *result)
{
    bool failed[2];
    int errors[2] = {0, 0};
    for (size_t i = 0; i < 2; i++) {
        const int32_t type = take_int(in);
        const bool is_end = take_bool(in);
        const int32_t told = take_int(in);
        const bool fits = i == 1 ? type == (int32_t)last : type == ZK_CHECK || type == ZK_DELETE;
        failed[i] = type == -1;
        if (failed[i])
            errors[i] = take_int(in);
        else if (type == ZK_SET)
            result->stat = take_stat(in);
        in->bad |= is_end || told != errors[i] || !(failed[i] || fits);
    }
    const bool is_end = take_int(in) == -1 && take_bool(in) && take_int(in) == -1;
    result->failed = errors[0] == 0;
    result->error = errors[result->failed];
    /* Either both have failed, for one reason, or none. */
    const bool first = errors[0] != 0 && errors[0] != ZK_INCONSISTENT && errors[1] == ZK_INCONSISTENT;
    const bool second = errors[0] == 0 && errors[1] != 0 && errors[1] != ZK_INCONSISTENT;
    in->bad |= !is_end || failed[0] != (first || second);
}

uint32_t simba__zk_length(const char *bytes)
{
    uint32_t length;
    memcpy(&length, bytes, sizeof length);
    return be32toh(length);
}

bool simba__zk_read_welcome(char *message, size_t length, // NOLINT(readability-non-const-parameter): texts move
                            zk_welcome *ret_welcome)
{
    reader in = {message, message + length, false};
    size_t size;
    take_int(&in); /* the version of the protocol */
    ret_welcome->timeout_ms = take_int(&in);
    ret_welcome->id = take_long(&in);
    const char *password = take_text(&in, &size);
    if (in.bad || size != ZK_PASSWORD)
        return false;
    memcpy(ret_welcome->password, password, size);
    ret_welcome->read_only = in.at < in.end && take_bool(&in); /* old servers do not say so */
    return in.at == in.end;
}

enum { HEAD = sizeof(int32_t) + sizeof(int64_t) + sizeof(int32_t) };

bool simba__zk_read_head(const char *message, size_t length, zk_head *ret_head)
{
    reader in = {(char *)(uintptr_t)message, (char *)(uintptr_t)message + length, false};
    ret_head->xid = take_int(&in);
    ret_head->zxid = take_long(&in);
    ret_head->error = take_int(&in);
    return !in.bad;
}

bool simba__zk_read_event(char *message, size_t length, // NOLINT(readability-non-const-parameter): texts move
                          zk_event *ret_event)
{
    reader in = {message, message + length, length < HEAD};
    in.at += in.bad ? 0 : HEAD;
    ret_event->kind = take_int(&in);
    take_int(&in); /* the state of the session */
    size_t size;
    ret_event->path = take_text(&in, &size);
    return !in.bad && in.at == in.end && strlen(ret_event->path) == size;
}

bool simba__zk_read_result(char *message, size_t length, zk_type type, zk_type last, zk_result *ret_result)
{
    zk_head head;
    *ret_result = (zk_result){0};
    if (!simba__zk_read_head(message, length, &head))
        return false;
    reader in = {message + HEAD, message + length, false};
    ret_result->error = head.error;
    switch (head.error == ZK_OK || (type == ZK_MULTI && in.at < in.end) ? type : ZK_DELETE) {
    case ZK_CREATE:
    case ZK_SYNC:
        ret_result->text = take_name(&in);
        break;
    case ZK_CREATE_CONTAINER:
    case ZK_CREATE2:
        ret_result->text = take_name(&in);
        ret_result->stat = take_stat(&in);
        break;
    case ZK_EXISTS:
    case ZK_SET:
        ret_result->stat = take_stat(&in);
        break;
    case ZK_GET:
        ret_result->text = take_text(&in, &ret_result->length);
        ret_result->stat = take_stat(&in);
        break;
    case ZK_CHILDREN:
        take_names(&in, ret_result);
        break;
    case ZK_MULTI:
        take_parts(&in, last, ret_result);
        break;
    case ZK_DELETE:
    case ZK_CHECK:
    case ZK_AUTH:
    case ZK_CLOSE:
        break;
    }
    const bool agrees = head.error == ZK_OK || ret_result->error != ZK_OK; /* the parts of a MULTI with its head */
    if (!in.bad && in.at == in.end && head.error <= ZK_OK && agrees)
        return true;
    simba__zk_result_fini(ret_result);
    return false;
}

void simba__zk_result_fini(zk_result *result)
{
    simba__free(result->names);
    result->names = NULL;
    result->count = result->contenders = 0;
}
