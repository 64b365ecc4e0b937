/* LIST: all mutexes whose name matches the pattern.
 *
 * First the names of all keys, in pages, without values; then all notes; then the values of the first two contenders of each mutex. All
 * of it at the revision of the first page, so that the rows fit together. If etcd has compacted that revision meanwhile, LIST begins
 * anew. Keys whose form or lease says that another program uses them for something else are no mutexes. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "stores/etcd/etcd.h"
#include "util/hash.h"
#include "util/mem.h"
#include "util/text.h"

enum { ROWS_MOST = 1000000, ROWS_AT_ONCE = 32, NOTES_PAGE = 100, ROUNDS_MOST = 3 };

typedef struct etcd_row {
    simba__list_item item;
    simba__node node;
    size_t contenders;
    struct {
        uint64_t revision;
        char *key;
        simba_owner owner;
    } in_line[2]; /* the first two */
    char *note;   /* with its bytes in it, or NULL */
    etcd_note seen;
    char mutex[];
} etcd_row;

typedef struct etcd_list {
    etcd_op op; /* first */
    simba__list rows;
    simba__table known;
    uint64_t revision; /* of the first page */
    char last[ETCD_KEY_MAX + 2];
    char start[ETCD_FOLDER_MAX + 1]; /* all keys of interest begin with this */
    simba__list_item *asked;         /* the last row whose owners were asked for */
    unsigned rounds;
} etcd_list;

static etcd_list *of(etcd_op *op)
{
    return (etcd_list *)op;
}

static void drop_rows(etcd_list *list)
{
    while (list->rows.first) {
        etcd_row *row = SIMBA__OF_ITEM(list->rows.first, etcd_row, item);
        simba__list_remove(&row->item);
        simba__table_remove(&list->known, &row->node);
        simba__free(row->in_line[0].key);
        simba__free(row->in_line[1].key);
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

static bool is_named(const simba__node *node, const void *mutex)
{
    return strcmp(SIMBA__OF_NODE(node, const etcd_row, node)->mutex, mutex) == 0;
}

/* The row of a mutex, if it is wanted. False: out of memory. */
static bool find_row(etcd_list *list, const char *mutex, etcd_row **ret_row)
{
    const char *pattern = list->op.request->mutex;
    const uint64_t hash = simba__hash(mutex);
    *ret_row = NULL;
    if (simba__check_mutex(mutex, NULL) < 0 || (pattern && fnmatch(pattern, mutex, 0) != 0))
        return true;
    simba__node *node = simba__table_find(&list->known, hash, is_named, mutex);
    if (node) {
        *ret_row = SIMBA__OF_NODE(node, etcd_row, node);
        return true;
    }
    if (list->rows.count >= ROWS_MOST || !simba__table_reserve(&list->known))
        return false;
    etcd_row *row = simba__calloc(1, sizeof *row + strlen(mutex) + 1);
    if (!row)
        return false;
    strcpy(row->mutex, mutex);
    simba__list_append(&list->rows, &row->item);
    simba__table_add(&list->known, &row->node, hash);
    *ret_row = row;
    return true;
}

/* --- pages -------------------------------------------------------------------------------------------------- */

static void begin(etcd_list *list);
static void read_notes(etcd_list *list);
static void read_owners(etcd_list *list);

/* The next page behind list->last, or from the start on. */
static void read_page(etcd_list *list, const char *settings, int page, etcd_answered *answered)
{
    simba__buffer *out = &list->op.body;
    char folder[2 * ETCD_KEY_MAX];
    out->length = 0;
    simba__json_put(out, "{");
    simba__etcd_put_page(out, list->start, list->last);
    snprintf(folder, sizeof folder, ",\"limit\":\"%d\",\"revision\":\"%llu\"%s}", page,
             (unsigned long long)list->revision, settings);
    simba__buffer_put(out, folder, strlen(folder));
    simba__etcd_call(&list->op, "/v3/kv/range", answered);
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

static bool add_key(etcd_list *list, const etcd_kv *kv)
{
    const size_t prefix = strlen(list->op.store->options.prefix);
    char mutex[ETCD_KEY_MAX + 1];
    etcd_row *row;
    if (!simba__etcd_is_lock(kv) || strlen(kv->key) <= prefix)
        return true;
    snprintf(mutex, sizeof mutex, "%.*s", (int)(strrchr(kv->key, '/') - kv->key - (ptrdiff_t)prefix), kv->key + prefix);
    if (!find_row(list, mutex, &row))
        return false;
    if (!row)
        return true;
    row->contenders++;
    char *key = NULL;
    uint64_t revision = kv->create_revision;
    for (int i = 0; i < 2; i++) {
        if (row->in_line[i].key && row->in_line[i].revision < revision)
            continue;
        if (!key && !(key = simba__strdup(kv->key)))
            return false;
        char *behind = row->in_line[i].key;
        const uint64_t behind_revision = row->in_line[i].revision;
        row->in_line[i].key = key;
        row->in_line[i].revision = revision;
        if (!behind)
            return true;
        key = behind;
        revision = behind_revision;
    }
    simba__free(key);
    return true;
}

static void on_keys(etcd_op *op, const etcd_answer *answer)
{
    etcd_list *list = of(op);
    etcd_kv kv;
    if (!is_good(list, answer))
        return;
    const simba__json kvs = simba__json_get(answer->json, "kvs");
    const bool more = simba__json_bool(simba__json_get(answer->json, "more"));
    size_t count = 0;
    for (simba__json element = {0}; simba__json_next(kvs, &element); count++) {
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
    if (more && count > 0 && kv.key[0])
        read_page(list, ",\"keys_only\":true", ETCD_LIST_PAGE, on_keys);
    else if (more) /* a page that ends with a key which is too long to go on from: it is not below a name of ours */
        fail(list, SIMBA_ESTORE, "a key is too long, or has a zero byte; set a prefix that it does not have");
    else
        read_notes(list);
}

static void on_notes(etcd_op *op, const etcd_answer *answer)
{
    etcd_list *list = of(op);
    const size_t prefix = strlen("simba-notes/") + strlen(op->store->options.prefix);
    char data[ETCD_STORED_NOTE_MAX + 1];
    size_t length;
    etcd_note note;
    etcd_row *row;
    etcd_kv kv;
    bool more = simba__json_bool(simba__json_get(answer->json, "more"));
    if (!is_good(list, answer))
        return;
    kv.key[0] = '\0';
    const simba__json kvs = simba__json_get(answer->json, "kvs");
    for (simba__json element = {0}; simba__json_next(kvs, &element);) {
        if (!simba__etcd_read_kv(element, &kv)) {
            simba__etcd_malformed(op);
            return;
        }
        if (kv.key[0])
            strcpy(list->last, kv.key);
        if (strlen(kv.key) <= prefix || !simba__json_base64(kv.value, data, sizeof data, &length) ||
            !simba__etcd_note_read(data, length, &note) || note.size == 0)
            continue; /* a note that cannot be read is left out; its mutex is shown all the same */
        if (!find_row(list, kv.key + prefix, &row) || (row && !(row->note = simba__malloc(note.size)))) {
            fail(list, SIMBA_ENOMEM, "out of memory, or more than 1000000 mutexes");
            return;
        }
        if (row) {
            memcpy(row->note, note.bytes, note.size);
            row->seen = note;
        }
    }
    if (more && kv.key[0])
        read_page(list, "", NOTES_PAGE, on_notes);
    else
        read_owners(list);
}

/* The text of the pattern before its first special character begins the name. */
static void set_start(etcd_list *list, const char *folder)
{
    const etcd_options *options = &list->op.store->options;
    const char *pattern = list->op.request->mutex ? list->op.request->mutex : "";
    const size_t literal = strcspn(pattern, "*?[\\");
    snprintf(list->start, sizeof list->start, "%s%s%.*s", folder, options->prefix,
             (int)(literal < SIMBA_MUTEX_BYTES ? literal : SIMBA_MUTEX_BYTES), pattern);
    list->last[0] = '\0';
}

static void begin(etcd_list *list)
{
    drop_rows(list);
    list->asked = NULL;
    list->revision = 0;
    set_start(list, "");
    read_page(list, ",\"keys_only\":true", ETCD_LIST_PAGE, on_keys);
}

static void read_notes(etcd_list *list)
{
    set_start(list, "simba-notes/");
    read_page(list, "", NOTES_PAGE, on_notes);
}

/* --- owners, and rows --------------------------------------------------------------------------------------- */

static void tell_rows(etcd_list *list)
{
    simba_host *host = list->op.store->host;
    for (simba__list_item *item = list->rows.first; item; item = item->next) {
        const etcd_row *row = SIMBA__OF_ITEM(item, const etcd_row, item);
        const simba_listing listing = {.size = sizeof listing,
                                       .mutex = row->mutex,
                                       .owner = &row->in_line[0].owner,
                                       .now_ms = simba__etcd_now_ms(list->op.store),
                                       .waiters = row->contenders > 0 ? (int64_t)row->contenders - 1 : 0,
                                       .note = row->note,
                                       .note_length = row->note ? row->seen.size : 0,
                                       .note_token = row->note ? row->seen.token : 0,
                                       .note_written_at_ms = row->note ? row->seen.written_at_ms : 0,
                                       .next = row->in_line[1].owner.id[0] ? row->in_line[1].owner.id : NULL};
        if (host->listed(host, list->op.request, &listing) < 0) {
            fail(list, SIMBA_ENOMEM, "out of memory");
            return;
        }
    }
    simba__etcd_finish(&list->op, SIMBA_NOT_MINE, NULL);
}

/* The answers are in the order of the questions. */
static void on_owners(etcd_op *op, const etcd_answer *answer)
{
    etcd_list *list = of(op);
    simba__json response = {0};
    if (!is_good(list, answer))
        return;
    const simba__json responses = simba__json_get(answer->json, "responses");
    while (simba__json_next(responses, &response)) {
        const simba__json kvs = simba__json_get(simba__json_get(response, "response_range"), "kvs");
        simba__json element = {0};
        etcd_kv kv;
        char mutex[ETCD_KEY_MAX + 1];
        etcd_row *row = NULL;
        if (!simba__json_next(kvs, &element) || !simba__etcd_read_kv(element, &kv) || !strrchr(kv.key, '/'))
            continue;
        const size_t prefix = strlen(op->store->options.prefix);
        snprintf(mutex, sizeof mutex, "%.*s", (int)(strrchr(kv.key, '/') - kv.key - (ptrdiff_t)prefix),
                 kv.key + prefix);
        if (!find_row(list, mutex, &row) || !row)
            continue;
        for (int i = 0; i < 2; i++)
            if (row->in_line[i].revision == kv.create_revision)
                row->in_line[i].owner = simba__etcd_owner(&kv);
    }
    read_owners(list);
}

static void read_owners(etcd_list *list)
{
    simba__buffer *out = &list->op.body;
    size_t count = 0;
    out->length = 0;
    simba__json_put(out, "{'success':[");
    simba__list_item *item = list->asked ? list->asked->next : list->rows.first;
    for (; item && count < ROWS_AT_ONCE; item = item->next) {
        const etcd_row *row = SIMBA__OF_ITEM(item, const etcd_row, item);
        list->asked = item;
        for (int i = 0; i < 2 && row->in_line[i].key; i++, count++) {
            simba__json_put(out, count > 0 ? ",{'request_range':{" : "{'request_range':{");
            simba__etcd_put_key(out, row->in_line[i].key);
            simba__json_put(out, ",'revision':'%lld'}}", (long long)list->revision);
        }
    }
    simba__json_put(out, "]}");
    if (count > 0)
        simba__etcd_call(&list->op, "/v3/kv/txn", on_owners);
    else if (item)
        read_owners(list);
    else
        tell_rows(list);
}

void simba__etcd_list(etcd_store *store, simba_request *request)
{
    etcd_list *list = simba__etcd_op_new(store, sizeof *list, request);
    if (!list)
        return;
    list->op.fini = fini;
    begin(list);
}
