/* Mutexes and incarnations as names of ZooKeeper's nodes.
 *
 * A mutex is the node /simba/NAME, as it is for Simba on the JVM. ZooKeeper does not take every name: those of a few
 * characters are written as "%XX" for each of their bytes, and so is a "%" that could be taken for the beginning of such.
 * All other names stay as they are.
 *
 * A contender is a child of it, "_c_{uuid}-latch-{ten digits}", as Curator's LeaderLatch makes them. The uuid comes from the
 * incarnation's nonce and its id: whoever has lost the answer to a create finds the child by it. */
#include <stdio.h>
#include <string.h>

#include "backends/zookeeper/zookeeper.h"
#include "util/hash.h"
#include "util/mem.h"

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F');
}

static bool is_escape(const char *text)
{
    return text[0] == '%' && is_hex(text[1]) && is_hex(text[2]);
}

/* How many bytes the character at `text`, which is valid UTF-8, has; and does ZooKeeper refuse it? It judges the units of
 * UTF-16: the surrogates, of which everything beyond U+FFFF is made, the private use area, and the last sixteen. */
static size_t look_at(const char *text, bool *ret_refused)
{
    const unsigned char *c = (const unsigned char *)text;
    *ret_refused = c[0] < 0x20 || c[0] == 0x7f || c[0] == '/' || is_escape(text);
    if (c[0] < 0x80)
        return 1;
    if (c[0] < 0xe0) {
        *ret_refused = c[0] == 0xc2 && c[1] < 0xa0;
        return 2;
    }
    if (c[0] < 0xf0) {
        const unsigned code = (c[0] & 0xfU) << 12 | (c[1] & 0x3fU) << 6 | (c[2] & 0x3fU);
        *ret_refused = (code >= 0xd800 && code <= 0xf8ff) || code >= 0xfff0;
        return 3;
    }
    *ret_refused = true;
    return 4;
}

char *simba__zk_mutex_path(const char *root, const char *mutex)
{
    char *path = simba__malloc(strlen(root) + 1 + 3 * strlen(mutex) + 1);
    if (!path)
        return NULL;
    char *out = stpcpy(path, root);
    *out++ = '/';
    const bool dots = strcmp(mutex, ".") == 0 || strcmp(mutex, "..") == 0;
    while (*mutex) {
        bool refused;
        const size_t length = look_at(mutex, &refused);
        for (size_t i = 0; i < length; i++, mutex++) {
            if (refused || dots)
                out += sprintf(out, "%%%02X", (unsigned char)*mutex);
            else
                *out++ = *mutex;
        }
    }
    *out = '\0';
    return path;
}

char *simba__zk_mutex_of(const char *name)
{
    char *mutex = simba__malloc(strlen(name) + 1);
    if (!mutex)
        return NULL;
    char *out = mutex;
    while (*name) {
        unsigned byte;
        if (is_escape(name) && sscanf(name + 1, "%2X", &byte) == 1) {
            *out++ = (char)byte;
            name += 3;
        } else {
            *out++ = *name++;
        }
    }
    *out = '\0';
    return mutex;
}

char *simba__zk_child_path(const char *path, const char *child)
{
    const size_t size = strlen(path) + strlen(child) + 2;
    char *text = simba__malloc(size);
    if (text)
        snprintf(text, size, "%s/%s", path, child);
    return text;
}

void simba__zk_prefix(uint64_t nonce, const char *id, char ret_prefix[ZK_PREFIX_MAX])
{
    const uint64_t low = simba__hash(id);
    snprintf(ret_prefix, ZK_PREFIX_MAX, "_c_%08x-%04x-%04x-%04x-%012llx-latch-", (unsigned)(nonce >> 32),
             (unsigned)(nonce >> 16 & 0xffff), (unsigned)(nonce & 0xffff), (unsigned)(low >> 48),
             (unsigned long long)(low & UINT64_C(0xffffffffffff)));
}

/* Curator orders by what comes after the last "latch-", and by the whole where there is none. */
static const char *order_of(const char *name)
{
    static const char word[] = "latch-";
    const char *key = name;
    for (const char *at = strstr(name, word); at; at = strstr(at + 1, word))
        key = at + sizeof word - 1;
    return key;
}

int simba__zk_order(const char *a, const char *b)
{
    const int order = strcmp(order_of(a), order_of(b));
    return order ? order : strcmp(a, b);
}
