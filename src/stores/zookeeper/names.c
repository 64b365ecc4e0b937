/* Mutexes and incarnations as names of ZooKeeper's nodes.
 *
 * Mutex NAME is the node /simba/NAME, exactly as it is for Simba on the JVM: "a/b" is the node "b" below "/simba/a", and
 * "%" has no special meaning. So contenders of both kinds meet at the same node for every name that ZooKeeper can take,
 * and all others are refused: the JVM cannot use those either.
 *
 * A contender is a child of it, "_c_{uuid}-latch-{ten digits}", as Curator's LeaderLatch makes them. The uuid comes from the
 * incarnation's nonce and its id: whoever has lost the answer to a create finds the child by it. */
#include "stores/zookeeper/zookeeper.h"

#include <stdio.h>
#include <string.h>

#include "util/error.h"
#include "util/hash.h"
#include "util/mem.h"
#include "util/text.h"

static const char latch[] = "latch-";

/* Does ZooKeeper refuse the character at `text`, which is valid UTF-8 and no ASCII control character? It judges the units
 * of UTF-16, and refuses U+0080 to U+009F, surrogates (so everything beyond U+FFFF), the private use area, and the last
 * sixteen. */
static bool is_refused(const unsigned char *c)
{
    if (c[0] < 0xe0)
        return c[0] == 0xc2 && c[1] < 0xa0;
    if (c[0] >= 0xf0)
        return true;
    const unsigned code = (c[0] & 0xfU) << 12 | (c[1] & 0x3fU) << 6 | (c[2] & 0x3fU);
    return (code >= 0xd800 && code <= 0xf8ff) || code >= 0xfff0;
}

/* What is wrong with one part of a name, between slashes; NULL: nothing. */
static const char *flaw_of_part(const char *part, size_t length, bool is_first)
{
    if (length == 0)
        return "begins or ends with a slash, or has two in a row";
    if ((length == 1 && part[0] == '.') || (length == 2 && strncmp(part, "..", 2) == 0))
        return "has a part that is \".\" or \"..\"";
    for (size_t i = 0; i < length; i++)
        if (((unsigned char)part[i] & 0xc0) != 0x80 && is_refused((const unsigned char *)part + i))
            return "has a character that ZooKeeper does not take, such as those beyond U+FFFF";
    if (!is_first && memmem(part, length, latch, strlen(latch)))
        return "has \"latch-\" after a slash, which is how contenders of the mutex before the slash are named";
    return NULL;
}

int simba__zk_check_mutex(const char *mutex, simba_error *err)
{
    for (const char *part = mutex;; part++) {
        const size_t length = strcspn(part, "/");
        const char *flaw = flaw_of_part(part, length, part == mutex);
        if (flaw)
            return simba__fail(err, SIMBA_EINVAL, "mutex name \"%.*s\" cannot be the name of a ZooKeeper node: it %s",
                               simba__text_cut(mutex, 80), mutex, flaw);
        part += length;
        if (*part == '\0')
            return 0;
    }
}

bool simba__zk_is_contender(const char *child)
{
    return strstr(child, latch) != NULL;
}

char *simba__zk_child_path(const char *path, const char *child)
{
    const size_t size = strlen(path) + strlen(child) + 2;
    char *text = simba__malloc(size);
    if (text)
        snprintf(text, size, "%s/%s", path, child);
    return text;
}

char *simba__zk_note_name(const char *mutex)
{
    char *name = simba__malloc(3 * strlen(mutex) + 1);
    char *out = name;
    for (const char *at = mutex; name && *at; at++)
        if (*at == '/' || *at == '%')
            out += sprintf(out, "%%%02X", (unsigned)*at);
        else
            *out++ = *at;
    if (name)
        *out = '\0';
    return name;
}

bool simba__zk_mutex_of_note(const char *name, char ret_mutex[SIMBA_MUTEX_BYTES + 1])
{
    size_t length = 0;
    for (const char *at = name; *at; at++) {
        char c = *at;
        if (c == '/' || length == SIMBA_MUTEX_BYTES)
            return false;
        if (c == '%' && (strncmp(at, "%2F", 3) == 0 || strncmp(at, "%25", 3) == 0)) {
            c = at[2] == 'F' ? '/' : '%';
            at += 2;
        } else if (c == '%') {
            return false;
        }
        ret_mutex[length++] = c;
    }
    ret_mutex[length] = '\0';
    return simba__check_mutex(ret_mutex, NULL) == 0 && simba__zk_check_mutex(ret_mutex, NULL) == 0;
}

uint64_t simba__zk_salted(uint64_t nonce, unsigned sessions_over)
{
    return nonce + sessions_over * UINT64_C(0x9E3779B97F4A7C15);
}

void simba__zk_prefix(uint64_t nonce, const char *id, char ret_prefix[ZK_PREFIX_MAX])
{
    const uint64_t low = simba__hash(id);
    snprintf(ret_prefix, ZK_PREFIX_MAX, "_c_%08x-%04x-%04x-%04x-%012llx-latch-", (unsigned)(nonce >> 32),
             (unsigned)(nonce >> 16 & 0xffff), (unsigned)(nonce & 0xffff), (unsigned)(low >> 48),
             (unsigned long long)(low & UINT64_C(0xffffffffffff)));
}

/* The second half of this library's uuids is made from the id. */
bool simba__zk_is_made_by_us(const char *child, const char *id)
{
    char prefix[ZK_PREFIX_MAX];
    const size_t half = strlen("_c_01234567-89ab-cdef");
    simba__zk_prefix(0, id, prefix);
    return strlen(child) >= strlen(prefix) && strncmp(child + half, prefix + half, strlen(prefix) - half) == 0;
}

/* Curator orders by what comes after the last "latch-", and by the whole name where there is none. */
static const char *order_of(const char *name)
{
    const char *key = name;
    for (const char *at = strstr(name, latch); at; at = strstr(at + 1, latch))
        key = at + strlen(latch);
    return key;
}

int simba__zk_order(const char *a, const char *b)
{
    if (simba__zk_is_contender(a) != simba__zk_is_contender(b))
        return simba__zk_is_contender(a) ? -1 : 1;
    const int order = strcmp(order_of(a), order_of(b));
    return order ? order : strcmp(a, b);
}

int64_t simba__zk_time_ms(int64_t told_ms)
{
    const int64_t last_ms = INT64_C(253402300799999);
    return told_ms < 0 ? 0 : told_ms > last_ms ? last_ms : told_ms;
}

simba_owner simba__zk_owner(const char *id, int64_t czxid, int64_t ctime_ms)
{
    simba_owner owner = {
        .acquired_at_ms = ctime_ms, .ttl_at_ms = INT64_MAX, .transition_at_ms = INT64_MAX, .token = (uint64_t)czxid};
    memcpy(owner.id, id, (size_t)simba__text_cut(id, SIMBA_ID_MAX));
    return owner;
}
