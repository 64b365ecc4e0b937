/* LIST: walk over the keys with SCAN, which shows a key twice if it likes, then read every mutex that was found with the
 * same script as READ does. A mutex is known by its lock or by its fence. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/redis/redis.h"
#include "util/error.h"
#include "util/mem.h"

struct redis_list {
    redis_list *next;
    simba_request *request; /* NULL: nobody waits for it any more */
    char **names;
    size_t count, capacity;
    size_t at; /* names before this have been read */
};

static const char prefix[] = "simba:{";

static void list_free(redis_node *self, redis_list *list)
{
    redis_list **link = &self->store->lists;
    while (*link != list)
        link = &(*link)->next;
    *link = list->next;
    for (size_t i = 0; i < list->count; i++)
        simba__free(list->names[i]);
    simba__free(list->names);
    simba__free(list);
}

static void list_end(redis_node *self, redis_list *list, const simba_error *error)
{
    if (list->request && error)
        self->host->fail(self->host, list->request, error->code, "%s", error->text);
    else if (list->request)
        self->host->complete(self->host, list->request);
    list_free(self, list);
}

static void list_out_of_memory(redis_node *self, redis_list *list)
{
    const simba_error error = {.code = SIMBA_ENOMEM, .text = "redis: out of memory"};
    list_end(self, list, &error);
}

/* What cannot be sent: the connection is gone or there is no memory. */
static void list_cannot_send(redis_node *self, redis_list *list)
{
    if (self->commands.state == REDIS_UP)
        list_out_of_memory(self, list);
    else
        list_end(self, list, &self->commands.error);
}

static bool refused(redis_node *self, redis_list *list, const redisReply *reply)
{
    if (reply && reply->type != REDIS_REPLY_ERROR && list->request)
        return false;
    simba_error error = self->commands.error;
    bool drop;
    if (reply && reply->type == REDIS_REPLY_ERROR)
        simba__redis_error(&self->commands.at, reply->str, &error, &drop);
    list_end(self, list, &error);
    return true;
}

/* --- names ------------------------------------------------------------------------------------------ */

/* The mutex that a key belongs to, as a new string; NULL with *ret_ok: to none, or to one that is not asked for. */
static char *name_of(const char *key, const char *pattern, bool *ret_ok)
{
    static const char fence[] = "}:fence";
    const size_t length = strlen(key);
    size_t end = 0;
    *ret_ok = true;
    if (strncmp(key, prefix, sizeof prefix - 1) != 0)
        return NULL;
    if (key[length - 1] == '}')
        end = length - 1;
    else if (length > sizeof fence && strcmp(key + length - (sizeof fence - 1), fence) == 0)
        end = length - (sizeof fence - 1);
    if (end < sizeof prefix || end - (sizeof prefix - 1) > SIMBA_MUTEX_BYTES)
        return NULL;
    char *name = simba__strdup(key + sizeof prefix - 1);
    if (!name) {
        *ret_ok = false;
        return NULL;
    }
    name[end - (sizeof prefix - 1)] = '\0';
    if (pattern && fnmatch(pattern, name, 0) != 0) {
        simba__free(name);
        return NULL;
    }
    return name;
}

static bool add_name(redis_list *list, const char *key)
{
    bool ok;
    char *name = name_of(key, list->request->mutex, &ok);
    if (!name)
        return ok;
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity ? list->capacity * 2 : 64;
        char **names = simba__realloc(list->names, capacity * sizeof *names);
        if (!names) {
            simba__free(name);
            return false;
        }
        list->names = names;
        list->capacity = capacity;
    }
    list->names[list->count++] = name;
    return true;
}

static int by_name(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static void drop_doubles(redis_list *list)
{
    if (list->count == 0)
        return;
    qsort(list->names, list->count, sizeof *list->names, by_name);
    size_t kept = 1;
    for (size_t i = 1; i < list->count; i++)
        if (strcmp(list->names[i], list->names[kept - 1]) == 0)
            simba__free(list->names[i]);
        else
            list->names[kept++] = list->names[i];
    list->count = kept;
}

/* --- reading ---------------------------------------------------------------------------------------- */

static void read_next(redis_node *self, redis_list *list);

static void on_owner(redis_node *self, void *user, const redisReply *reply)
{
    redis_list *list = user;
    simba_reply parsed;
    int64_t waiters = -1;
    if (refused(self, list, reply))
        return;
    if (!simba__redis_parse_read(reply, &parsed, &waiters)) {
        const simba_error error = {.code = SIMBA_ECORRUPT, .text = "redis: an odd answer to a read"};
        list_end(self, list, &error);
        return;
    }
    const simba_listing row = {list->names[list->at], &parsed.owner, parsed.now_ms, waiters};
    if (self->host->listed(self->host, list->request, &row) < 0) {
        list_out_of_memory(self, list);
        return;
    }
    list->at++;
    read_next(self, list);
}

static void read_next(redis_node *self, redis_list *list)
{
    if (list->at == list->count)
        list_end(self, list, NULL);
    else if (!simba__redis_calls_read(self, list->names[list->at], on_owner, list))
        list_cannot_send(self, list);
}

/* --- scanning --------------------------------------------------------------------------------------- */

static void scan(redis_node *self, redis_list *list, const char *cursor);

static bool is_page(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && reply->element[0]->type == REDIS_REPLY_STRING &&
           reply->element[1]->type == REDIS_REPLY_ARRAY;
}

static void on_page(redis_node *self, void *user, const redisReply *reply)
{
    redis_list *list = user;
    if (refused(self, list, reply))
        return;
    if (!is_page(reply)) {
        const simba_error error = {.code = SIMBA_ECORRUPT, .text = "redis: an odd answer to SCAN"};
        list_end(self, list, &error);
        return;
    }
    const redisReply *keys = reply->element[1];
    for (size_t i = 0; i < keys->elements; i++)
        if (keys->element[i]->type == REDIS_REPLY_STRING && !add_name(list, keys->element[i]->str)) {
            list_out_of_memory(self, list);
            return;
        }
    if (strcmp(reply->element[0]->str, "0") != 0) {
        scan(self, list, reply->element[0]->str);
        return;
    }
    drop_doubles(list);
    read_next(self, list);
}

static void scan(redis_node *self, redis_list *list, const char *cursor)
{
    const char *const argv[] = {"SCAN", cursor, "MATCH", "simba:{*", "COUNT", "1000"};
    if (!simba__redis_calls_put(self, 6, argv, on_page, list))
        list_cannot_send(self, list);
}

void simba__redis_list_begin(redis_node *self, simba_request *request)
{
    redis_list *list = simba__calloc(1, sizeof *list);
    if (!list) {
        self->host->fail(self->host, request, SIMBA_ENOMEM, "redis %s: out of memory", self->commands.at.where);
        return;
    }
    list->request = request;
    list->next = self->store->lists;
    self->store->lists = list;
    scan(self, list, "0");
}

simba_local simba__redis_lists_expire(redis_node *self, simba_local now)
{
    simba_local earliest = {INT64_MAX};
    for (redis_list *list = self->store->lists; list; list = list->next) {
        if (!list->request)
            continue;
        if (list->request->deadline.ns <= now.ns) {
            self->host->fail(self->host, list->request, SIMBA_ETIMEDOUT, "redis %s: the list was not complete in time",
                             self->commands.at.where);
            list->request = NULL; /* the next answer ends it */
        } else if (list->request->deadline.ns < earliest.ns) {
            earliest = list->request->deadline;
        }
    }
    return earliest;
}
