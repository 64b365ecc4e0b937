/* LIST: all mutexes whose name matches the pattern.
 *
 * First the names of all keys of contenders, then those of all notes, in pages and without values, because other programs may keep large
 * values among them; then the values of the first two contenders and of the note of each mutex. All of it at the revision of the first
 * page, so that the rows fit together. If etcd has compacted that revision meanwhile, LIST begins anew. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "stores/etcd/etcd.h"
#include "util/hash.h"
#include "util/mem.h"
#include "util/text.h"

enum { ROWS_MOST = 1000000, VALUES_AT_ONCE = 96, PAGE = 500, ROUNDS_MOST = 3 };

#define NOTES "simba-notes/"

typedef struct etcd_row {
    simba__list_item item;
    simba__node node;
    size_t contenders;
    struct {
        uint64_t revision;
        char *key; /* NULL: there is none */
        simba_owner owner;
    } first[2]; /* of the queue */
    bool has_note;
    char *note; /* as it is stored; NULL: there is none, or it cannot be read */
    etcd_note seen;
    char mutex[];
} etcd_row;

typedef struct etcd_list {
    etcd_op op; /* first */
    simba__list rows;
    simba__table known;
    uint64_t revision; /* of the first page */
    bool of_notes;     /* the page is one of notes */
    char last[ETCD_KEY_MAX + 2];
    simba__list_item *asked; /* the first row whose values were asked for */
    unsigned rounds;
} etcd_list;

static etcd_list *of(etcd_op *op)
{
    return (etcd_list *)op;
}

static etcd_row *row_of(simba__list_item *item)
{
    return item ? SIMBA__OF_ITEM(item, etcd_row, item) : NULL;
}

static void drop_rows(etcd_list *list)
{
    for (etcd_row *row; (row = row_of(list->rows.first)) != NULL;) {
        simba__list_remove(&row->item);
        simba__table_remove(&list->known, &row->node);
        simba__free(row->first[0].key);
        simba__free(row->first[1].key);
        simba__free(row->note);
        simba__free(row);
    }
}

static void fini(etcd_op *op)
{
    drop_rows(of(op));
    simba__table_fini(&of(op)->known);
}

static void fail(etcd_list *list, int code, const char *text)
{
    simba__etcd_fail(&list->op, code, "%s", text);
    simba__etcd_op_end(&list->op);
}

/* --- names -------------------------------------------------------------------------------------------------- */

static void begin(etcd_list *list);
static void read_values(etcd_list *list);

static bool is_named(const simba__node *node, const void *mutex)
{
    return strcmp(SIMBA__OF_NODE(node, const etcd_row, node)->mutex, mutex) == 0;
}

/* The row of a mutex, which may be new. NULL: out of memory. */
static etcd_row *row_for(etcd_list *list, const char *mutex)
{
    const uint64_t hash = simba__hash(mutex);
    simba__node *node = simba__table_find(&list->known, hash, is_named, mutex);
    if (node)
        return SIMBA__OF_NODE(node, etcd_row, node);
    if (list->rows.count >= ROWS_MOST || !simba__table_reserve(&list->known))
        return NULL;
    etcd_row *row = simba__calloc(1, sizeof *row + strlen(mutex) + 1);
    if (!row)
        return NULL;
    strcpy(row->mutex, mutex);
    simba__list_append(&list->rows, &row->item);
    simba__table_add(&list->known, &row->node, hash);
    return row;
}

/* The mutex whose contender or note has this key, if it is wanted. */
static bool find_mutex(const etcd_list *list, const etcd_kv *kv, char ret_mutex[ETCD_KEY_MAX + 1])
{
    const char *pattern = list->op.request->mutex;
    const size_t before = (list->of_notes ? strlen(NOTES) : 0) + strlen(list->op.store->options.prefix);
    const char *end = list->of_notes ? kv->key + strlen(kv->key) : strrchr(kv->key, '/');
    if (strlen(kv->key) <= before || (!list->of_notes && !simba__etcd_is_lock(kv)) || end <= kv->key + before)
        return false;
    snprintf(ret_mutex, ETCD_KEY_MAX + 1, "%.*s", (int)(end - kv->key - (ptrdiff_t)before), kv->key + before);
    return simba__check_mutex(ret_mutex, NULL) == 0 && (!pattern || fnmatch(pattern, ret_mutex, 0) == 0);
}

/* One more contender: is it one of the first two? */
static bool add_contender(etcd_row *row, const etcd_kv *kv)
{
    const bool leads = !row->first[0].key || kv->create_revision < row->first[0].revision;
    row->contenders++;
    if (!leads && row->first[1].key && kv->create_revision > row->first[1].revision)
        return true;
    char *key = simba__strdup(kv->key);
    if (!key)
        return false;
    simba__free(row->first[1].key);
    if (leads)
        row->first[1] = row->first[0];
    row->first[leads ? 0 : 1].key = key;
    row->first[leads ? 0 : 1].revision = kv->create_revision;
    return true;
}

/* False: out of memory. */
static bool add_key(etcd_list *list, const etcd_kv *kv)
{
    char mutex[ETCD_KEY_MAX + 1];
    if (!find_mutex(list, kv, mutex))
        return true;
    etcd_row *row = row_for(list, mutex);
    if (row && list->of_notes)
        row->has_note = true;
    return row && (list->of_notes || add_contender(row, kv));
}

/* False: the request goes on otherwise, or has failed. */
static bool is_good(etcd_list *list, const etcd_answer *answer)
{
    uint64_t revision, term;
    if (answer->code == SIMBA_ESTORE && answer->fault.code == ETCD_OUT_OF_RANGE && list->rounds++ < ROUNDS_MOST) {
        begin(list);
        return false;
    }
    if (!simba__etcd_good(&list->op, answer))
        return false;
    if (!simba__etcd_read_header(answer->json, &revision, &term)) {
        simba__etcd_malformed(&list->op);
        return false;
    }
    if (list->revision == 0)
        list->revision = revision;
    return true;
}

static void on_keys(etcd_op *op, const etcd_answer *answer);

/* The next page behind list->last. The text of the pattern before its first special character begins the name. */
static void read_page(etcd_list *list)
{
    simba__buffer *out = &list->op.body;
    const char *pattern = list->op.request->mutex ? list->op.request->mutex : "";
    const size_t literal = strcspn(pattern, "*?[\\");
    char start[ETCD_FOLDER_MAX + 1];
    snprintf(start, sizeof start, "%s%s%.*s", list->of_notes ? NOTES : "", list->op.store->options.prefix,
             (int)(literal < SIMBA_MUTEX_BYTES ? literal : SIMBA_MUTEX_BYTES), pattern);
    out->length = 0;
    simba__json_put(out, "{");
    simba__etcd_put_page(out, start, list->last);
    simba__json_put(out, ",'limit':'%lld','revision':'%lld','keys_only':true}", (long long)PAGE,
                    (long long)list->revision);
    simba__etcd_call(&list->op, "/v3/kv/range", on_keys);
}

static void on_keys(etcd_op *op, const etcd_answer *answer)
{
    etcd_list *list = of(op);
    etcd_kv kv = {0};
    if (!is_good(list, answer))
        return;
    const simba__json kvs = simba__json_get(answer->json, "kvs");
    for (simba__json element = {0}; simba__json_next(kvs, &element);) {
        if (!simba__etcd_read_kv(element, &kv)) {
            simba__etcd_malformed(op);
            return;
        }
        if (!add_key(list, &kv)) {
            fail(list, SIMBA_ENOMEM, "out of memory, or more than 1000000 mutexes");
            return;
        }
        if (kv.key[0])
            strcpy(list->last, kv.key);
    }
    const bool more = simba__json_bool(simba__json_get(answer->json, "more"));
    if (more &&
        !kv.key[0]) { /* a page that ends with a key which is too long to go on from: it is not below a name of ours */
        fail(list, SIMBA_ESTORE, "a key is too long, or has a zero byte; set a prefix that it does not have");
    } else if (more || !list->of_notes) {
        if (!more)
            list->last[0] = '\0';
        list->of_notes |= !more;
        read_page(list);
    } else {
        list->asked = list->rows.first;
        read_values(list);
    }
}

static void begin(etcd_list *list)
{
    drop_rows(list);
    list->revision = 0;
    list->of_notes = false;
    list->last[0] = '\0';
    read_page(list);
}

/* --- values, and rows --------------------------------------------------------------------------------------- */

static void tell_rows(etcd_list *list)
{
    simba_host *host = list->op.store->host;
    for (const etcd_row *row = row_of(list->rows.first); row; row = row_of(row->item.next)) {
        const simba_listing listing = {.size = sizeof listing,
                                       .mutex = row->mutex,
                                       .owner = &row->first[0].owner,
                                       .now_ms = simba__etcd_now_ms(list->op.store),
                                       .waiters = row->contenders > 0 ? (int64_t)row->contenders - 1 : 0,
                                       .note = row->note,
                                       .note_length = row->note ? row->seen.size : 0,
                                       .note_token = row->note ? row->seen.token : 0,
                                       .note_written_at_ms = row->note ? row->seen.written_at_ms : 0,
                                       .next = row->first[1].owner.id[0] ? row->first[1].owner.id : NULL};
        if (row->contenders == 0 && !row->note)
            continue; /* the note was removed */
        if (host->listed(host, list->op.request, &listing) < 0) {
            fail(list, SIMBA_ENOMEM, "out of memory");
            return;
        }
    }
    simba__etcd_finish(&list->op, SIMBA_NOT_MINE, NULL);
}

/* A note that cannot be read is left out. False: out of memory. */
static bool take_note(etcd_row *row, const etcd_kv *kv)
{
    char data[ETCD_STORED_NOTE_MAX + 1];
    size_t length;
    if (!simba__json_base64(kv->value, data, sizeof data, &length) ||
        !simba__etcd_note_read(data, length, &row->seen) || row->seen.size == 0)
        return true;
    row->note = simba__malloc(row->seen.size);
    if (row->note)
        memcpy(row->note, row->seen.bytes, row->seen.size);
    return row->note;
}

/* The key that the next answer in a transaction shows. False: none. */
static bool next_kv(simba__json answer, simba__json *response, etcd_kv *ret_kv)
{
    simba__json element = {0};
    return simba__json_next(simba__json_get(answer, "responses"), response) &&
           simba__json_next(simba__json_get(simba__json_get(*response, "response_range"), "kvs"), &element) &&
           simba__etcd_read_kv(element, ret_kv);
}

/* The answers are in the order of the questions. */
static void on_values(etcd_op *op, const etcd_answer *answer)
{
    etcd_list *list = of(op);
    simba__json response = {0};
    unsigned count = 0;
    etcd_kv kv;
    if (!is_good(list, answer))
        return;
    for (etcd_row *row; (row = row_of(list->asked)) && count < VALUES_AT_ONCE; list->asked = list->asked->next) {
        for (int i = 0; i < 2 && row->first[i].key; i++, count++)
            if (next_kv(answer->json, &response, &kv) && kv.create_revision == row->first[i].revision)
                row->first[i].owner = simba__etcd_owner(&kv);
        count += row->has_note;
        if (row->has_note && next_kv(answer->json, &response, &kv) && !take_note(row, &kv)) {
            fail(list, SIMBA_ENOMEM, "out of memory");
            return;
        }
    }
    read_values(list);
}

static void ask_for(etcd_list *list, const char *key, bool is_first)
{
    simba__buffer *out = &list->op.body;
    simba__json_put(out, is_first ? "{'request_range':{" : ",{'request_range':{");
    simba__etcd_put_key(out, key);
    simba__json_put(out, ",'revision':'%lld'}}", (long long)list->revision);
}

static void read_values(etcd_list *list)
{
    simba__buffer *out = &list->op.body;
    unsigned count = 0;
    etcd_names names;
    if (!list->asked) {
        tell_rows(list);
        return;
    }
    out->length = 0;
    simba__json_put(out, "{'success':[");
    for (const etcd_row *row = row_of(list->asked); row && count < VALUES_AT_ONCE; row = row_of(row->item.next)) {
        for (int i = 0; i < 2 && row->first[i].key; i++)
            ask_for(list, row->first[i].key, count++ == 0);
        simba__etcd_names(list->op.store->options.prefix, row->mutex, &names);
        if (row->has_note)
            ask_for(list, names.note, count++ == 0);
    }
    simba__json_put(out, "]}");
    simba__etcd_call(&list->op, "/v3/kv/txn", on_values);
}

void simba__etcd_list(etcd_store *store, simba_request *request)
{
    etcd_list *list = simba__etcd_op_new(store, sizeof *list, request);
    if (!list)
        return;
    list->op.fini = fini;
    begin(list);
}
