/* LIST: walks over the keys of every server with SCAN, which may show a key twice, then reads every mutex that it found
 * with the script of READ. A mutex is found by its lock, its grant or its note.
 *
 * The reads are requests of our own beside those of the client, ROWS at a time. They go to the server of the mutex
 * through the same code as every request. In session.c a request with the operation LIST is one of these. */
#include "backends/redis/list.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/redis/reply.h"
#include "util/error.h"
#include "util/mem.h"

enum { ROWS = 128 }; /* read at a time */

/* One mutex that is being read. */
typedef struct list_row {
    simba_request request; /* first member; while it is under way, backend_data is its errand */
    redis_list *list;
} list_row;

struct redis_list {
    redis_list *next;
    redis_lists *all;
    redis_errand *errand; /* NULL: the request has failed */
    bool expired;         /* its time is over */
    redis_node *node;     /* the node that it scans; NULL: it has scanned all */
    bool asked;           /* the node owes an answer to SCAN */
    char cursor[24];
    char **names;
    size_t count, capacity;
    size_t at; /* it has asked for the names before this one */
    list_row *rows;
    size_t row_count;
    size_t busy;          /* rows under way */
    simba_request *spare; /* the reads that are not in use */
};

static const char prefix[] = "simba:{";

static void list_free(redis_lists *self, redis_list *list)
{
    redis_list **link = &self->first;
    while (*link != list)
        link = &(*link)->next;
    *link = list->next;
    self->nodes->scans--;
    for (size_t i = 0; i < list->count; i++)
        simba__free(list->names[i]);
    simba__free(list->names);
    simba__free(list->rows);
    simba__free(list);
}

/* End the request. The list itself ends when nothing of it is under way any more. */
static void list_end(redis_lists *self, redis_list *list, const simba_error *error)
{
    redis_errand *errand = list->errand;
    const char *where = list->node ? list->node->commands.conn.link.at.where : "server";
    list->errand = NULL;
    if (errand && list->expired)
        simba__redis_errand_fail(errand, SIMBA_ETIMEDOUT, "redis %s: no answer in time", where);
    else if (errand && error)
        simba__redis_errand_fail(errand, error->code, "%s", error->text);
    else if (errand)
        simba__redis_errand_complete(errand);
    if (!list->asked && list->busy == 0)
        list_free(self, list);
}

static void list_fail(redis_lists *self, redis_list *list, int code, const char *why)
{
    simba_error error;
    simba__error_set(&error, code, "redis: %s", why);
    list_end(self, list, &error);
}

/* --- names ------------------------------------------------------------------------------------------ */

/* The mutex that a key belongs to, as a new string. NULL with *ret_ok: the key is no mutex's, or the pattern leaves it
 * out. */
static char *name_of(const char *key, const char *pattern, bool *ret_ok)
{
    static const char *const ours[] = {"}:grant", "}:note", "}:fence"}; /* earlier versions stored the last one */
    const size_t length = strlen(key);
    size_t end = 0;
    *ret_ok = true;
    if (strncmp(key, prefix, sizeof prefix - 1) != 0)
        return NULL;
    if (key[length - 1] == '}')
        end = length - 1;
    for (size_t i = 0; i < sizeof ours / sizeof *ours && end == 0; i++) {
        const size_t tail = strlen(ours[i]);
        if (length > tail && strcmp(key + length - tail, ours[i]) == 0)
            end = length - tail;
    }
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
    char *name = name_of(key, list->errand->request->mutex, &ok);
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

static redis_list *list_of(simba_request *row)
{
    return ((list_row *)(void *)row)->list;
}

static redis_list *give_back(simba_request *row)
{
    redis_list *list = list_of(row);
    row->next = list->spare;
    list->spare = row;
    list->busy--;
    return list;
}

static void row_failed(simba_request *row, const simba_error *error);

static void read_more(redis_lists *self, redis_list *list)
{
    while (list->spare && list->at < list->count && !list->expired) {
        simba_request *row = list->spare;
        list->spare = row->next;
        *row = (simba_request){
            .op = SIMBA_OP_LIST, .mutex = list->names[list->at++], .deadline = list->errand->request->deadline};
        list->busy++;
        redis_errand *errand = simba__redis_errand_begin(self->nodes->errands, REDIS_FOR_REQUEST, row);
        if (!errand) {
            list_fail(self, give_back(row), SIMBA_ENOMEM, "out of memory");
            return;
        }
        errand->failed = row_failed;
        simba__redis_commands_submit(&simba__redis_node_for(self->nodes, row)->commands, errand);
    }
    if (list->busy == 0)
        list_end(self, list, NULL);
    else
        self->host->wake(self->host); /* to send them */
}

static void begin_to_read(redis_lists *self, redis_list *list)
{
    drop_doubles(list);
    const size_t count = list->count < ROWS ? list->count : ROWS;
    list->rows = simba__calloc(count > 0 ? count : 1, sizeof *list->rows);
    if (!list->rows) {
        list_fail(self, list, SIMBA_ENOMEM, "out of memory");
        return;
    }
    list->row_count = count;
    for (size_t i = 0; i < count; i++) {
        list->rows[i].list = list;
        list->rows[i].request.next = list->spare;
        list->spare = &list->rows[i].request;
    }
    read_more(self, list);
}

/* A damaged mutex does not keep the others from being shown. */
static void skip_row(simba_request *row, const char *why)
{
    redis_lists *self = list_of(row)->all;
    self->host->log(self->host, SIMBA_LOG_WARN, "mutex %.*s is not listed: %s", SIMBA_MUTEX_BYTES, row->mutex, why);
    redis_list *list = give_back(row);
    if (list->errand)
        read_more(self, list);
    else
        list_end(self, list, NULL);
}

void simba__redis_list_row(redis_errand *errand, const redisReply *reply)
{
    simba_request *row = errand->request;
    simba_reply parsed = {0};
    int64_t waiters;
    simba__redis_parse(reply, errand->request, &parsed, &waiters);
    simba__redis_errand_forget(errand);
    if (reply->element[2]->len > SIMBA_ID_MAX) {
        skip_row(row, "the id of its owner is longer than an id can be");
        return;
    }
    simba_stored_note note = {0};
    if (reply->elements > 8 && !simba__redis_take_note(reply->element[8], &note)) {
        skip_row(row, "its note cannot be read");
        return;
    }
    if (reply->elements > 9 &&
        (reply->element[9]->type != REDIS_REPLY_STRING || reply->element[9]->len > SIMBA_ID_MAX)) {
        skip_row(row, "who comes next cannot be read");
        return;
    }
    const char *next = reply->elements > 9 && reply->element[9]->len > 0 ? reply->element[9]->str : NULL;
    const simba_listing listing = {.size = sizeof listing,
                                   .mutex = row->mutex,
                                   .owner = &parsed.owner,
                                   .now_ms = parsed.now_ms,
                                   .waiters = waiters,
                                   .note = note.bytes,
                                   .note_length = note.size,
                                   .note_token = note.token,
                                   .note_written_at_ms = note.written_at_ms,
                                   .next = next};
    redis_list *list = give_back(row);
    redis_lists *self = list->all;
    if (!list->errand)
        list_end(self, list, NULL);
    else if (!list->expired && self->host->listed(self->host, list->errand->request, &listing) < 0)
        list_fail(self, list, SIMBA_ENOMEM, "out of memory");
    else
        read_more(self, list);
}

static void row_failed(simba_request *row, const simba_error *error)
{
    redis_lists *self = list_of(row)->all;
    if (error->code == SIMBA_ECORRUPT)
        skip_row(row, error->text);
    else
        list_end(self, give_back(row), error);
}

/* --- scanning --------------------------------------------------------------------------------------- */

static void scan(redis_lists *self, redis_list *list);

static void scan_next_node(redis_lists *self, redis_list *list)
{
    list->node = simba__redis_node_serving(list->node->next);
    if (list->node)
        scan(self, list);
    else
        begin_to_read(self, list);
}

static bool is_page(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && reply->element[0]->type == REDIS_REPLY_STRING &&
           reply->element[0]->len < sizeof((redis_list *)NULL)->cursor && reply->element[1]->type == REDIS_REPLY_ARRAY;
}

static bool add_names(redis_list *list, const redisReply *keys)
{
    for (size_t i = 0; i < keys->elements; i++)
        if (keys->element[i]->type == REDIS_REPLY_STRING && !add_name(list, keys->element[i]->str))
            return false;
    return true;
}

static void on_page(void *user, const redisReply *reply)
{
    redis_list *list = user;
    redis_lists *self = list->all;
    const redis_conn *conn = &list->node->commands.conn;
    simba_error error = conn->link.error;
    bool drop;
    list->asked = false;
    if (!reply || !list->errand || list->expired) {
        list_end(self, list, &error);
    } else if (reply->type == REDIS_REPLY_ERROR) {
        simba__redis_error(&conn->link.at, reply->str, &error, &drop);
        list_end(self, list, &error);
    } else if (!is_page(reply)) {
        list_fail(self, list, SIMBA_ECORRUPT, "an odd answer to SCAN");
    } else if (!add_names(list, reply->element[1])) {
        list_fail(self, list, SIMBA_ENOMEM, "out of memory");
    } else {
        strcpy(list->cursor, reply->element[0]->str);
        if (strcmp(list->cursor, "0") == 0)
            scan_next_node(self, list);
        else
            scan(self, list);
    }
}

/* Ask the node for the next page, now or as soon as it can be asked. */
static void scan(redis_lists *self, redis_list *list)
{
    redis_commands *commands = &list->node->commands;
    const char *const argv[] = {"SCAN", list->cursor, "MATCH", "simba:{*", "COUNT", "1000"};
    if (simba__redis_commands_ready(commands)) {
        list->asked = simba__redis_commands_ask(commands, 6, argv, on_page, list);
        if (!list->asked)
            list_fail(self, list, SIMBA_ENOMEM, "out of memory");
        self->host->wake(self->host); /* to send it */
    } else if (commands->conn.link.state == SIMBA__LINK_WAITING) {
        list_end(self, list, &commands->conn.link.error);
    } else {
        commands->wanted = true;
        self->host->wake(self->host); /* to connect */
    }
}

void simba__redis_lists_up(redis_lists *self, redis_node *node)
{
    for (redis_list *list = self->first, *next; list; list = next) {
        next = list->next;
        if (list->node == node && !list->asked && list->errand)
            scan(self, list);
    }
}

/* The requests on that connection get errors of their own. */
void simba__redis_lists_down(redis_lists *self, redis_node *node, const simba_error *error)
{
    for (redis_list *list = self->first, *next; list; list = next) {
        next = list->next;
        if (list->node == node && !list->asked)
            list_end(self, list, error);
    }
}

/* --- the store's side --------------------------------------------------------------------------------- */

/* Begin with the first node that serves; if none is known yet, with the node that stands for it. */
static void begin(redis_lists *self, redis_list *list)
{
    const simba_request any = {.mutex = NULL};
    list->node = simba__redis_node_for(self->nodes, &any);
    strcpy(list->cursor, "0");
    scan(self, list);
}

void simba__redis_lists_moved(redis_lists *self)
{
    for (redis_list *list = self->first, *next; list; list = next) {
        next = list->next;
        if (list->node && !list->node->serves && !list->asked && list->errand)
            begin(self, list); /* from the start: the list drops doubles at its end */
    }
}

void simba__redis_list_expire(redis_errand *errand)
{
    redis_list *list = errand->user;
    list->expired = true;
    for (size_t i = 0; i < list->row_count; i++) {
        redis_errand *row = list->rows[i].request.backend_data;
        if (!row)
            continue;
        simba__redis_commands_expire(row);
        if (row->stage != REDIS_IN_HAND)
            continue;
        simba__redis_errand_forget(row);
        give_back(&list->rows[i].request);
    }
    if (!list->asked && list->busy == 0)
        list_end(list->all, list, NULL);
}

void simba__redis_lists_init(redis_lists *self, redis_nodes *nodes)
{
    self->nodes = nodes;
    self->host = nodes->conns.links.host;
}

void simba__redis_list_begin(redis_lists *self, redis_errand *errand)
{
    redis_list *list = simba__calloc(1, sizeof *list);
    if (!list) {
        simba__redis_errand_fail(errand, SIMBA_ENOMEM, "redis: out of memory");
        return;
    }
    errand->user = list;
    list->all = self;
    list->errand = errand;
    list->next = self->first;
    self->first = list;
    self->nodes->scans++;
    begin(self, list);
}
