/* What looks at mutexes without contending: READ, LIST and FORCE_RELEASE, and the watches of observers.
 *
 * Each begins with a sync, so that a server which lags behind does not answer with the past. */
#include <fnmatch.h>
#include <string.h>

#include "backends/zookeeper/zookeeper.h"
#include "util/mem.h"
#include "util/text.h"

enum { ROWS_AT_ONCE = 64 };

/* --- READ --------------------------------------------------------------------------------------------- */

static void read_owner(zk_op *op);

static void owner_read(zk_op *op)
{
    if (!simba__zk_op_good(op))
        return;
    if (op->vanished)
        simba__zk_op_start(op);
    else
        simba__zk_op_complete(op, SIMBA_NOT_MINE, &op->owner);
}

static void children_read(zk_op *op)
{
    if (!simba__zk_op_good(op))
        return;
    if (!op->leader) {
        simba__zk_op_complete(op, SIMBA_NOT_MINE, NULL);
        return;
    }
    simba__zk_op_step(op, owner_read);
    simba__zk_call_owner(op, op->path);
    simba__zk_op_go(op);
}

static void read_owner(zk_op *op)
{
    simba__zk_op_step(op, children_read);
    simba__zk_call_sync(op);
    simba__zk_call_children(op, op->path);
    simba__zk_op_go(op);
}

/* A procedure about a mutex. */
static zk_op *op_of_mutex(zk_store *self, simba_request *request, void (*run)(zk_op *op))
{
    zk_op *op = simba__zk_op_new(self, request, run);
    if (!op)
        return NULL;
    op->path = simba__zk_child_path(self->options.root, request->mutex);
    if (op->path)
        return op;
    simba__zk_op_fail(op, SIMBA_ENOMEM, "out of memory");
    return NULL;
}

void simba__zk_read(zk_store *self, simba_request *request)
{
    zk_op *op = op_of_mutex(self, request, read_owner);
    if (op)
        simba__zk_op_start(op);
}

/* --- FORCE_RELEASE -------------------------------------------------------------------------------------- */

/* A LeaderLatch does not watch its own node. */
static void warn_of_foreign_owner(zk_op *op)
{
    simba_host *host = op->store->host;
    if (!simba_owner_is_none(&op->owner) && !simba__zk_is_made_by_us(op->leader, op->owner.id))
        host->log(host, SIMBA_LOG_WARN,
                  "zookeeper: the owner of %s is not one of this library; a LeaderLatch, as Simba on the JVM uses it, "
                  "does not notice that it was removed and goes on leading until it is stopped or loses its connection",
                  op->path + strlen(op->store->options.root) + 1);
}

static void forced(zk_op *op)
{
    if (!simba__zk_op_good(op))
        return;
    if (op->vanished) {
        simba__zk_op_start(op); /* it went by itself; who leads now? */
        return;
    }
    warn_of_foreign_owner(op);
    simba__zk_op_complete(op, SIMBA_MINE, NULL);
}

static void force(zk_op *op)
{
    if (!simba__zk_op_good(op))
        return;
    if (!op->leader) {
        simba__zk_op_complete(op, SIMBA_NOT_MINE, NULL);
        return;
    }
    simba__zk_op_step(op, forced);
    simba__zk_call_owner(op, op->path);
    simba__zk_call_delete(op, op->path, op->leader);
    simba__zk_op_go(op);
}

static void look_and_force(zk_op *op)
{
    simba__zk_op_step(op, force);
    simba__zk_call_sync(op);
    simba__zk_call_children(op, op->path);
    simba__zk_op_go(op);
}

void simba__zk_force_release(zk_store *self, simba_request *request)
{
    zk_op *op = op_of_mutex(self, request, look_and_force);
    if (op)
        simba__zk_op_start(op);
}

/* --- LIST ------------------------------------------------------------------------------------------------- */

static void list_on(zk_op *list);

static void row_finished(zk_op *row)
{
    zk_op *list = row->parent;
    list->rows--;
    list_on(list);
}

/* The mutex of a row: what comes after ROOT/. */
static const char *mutex_of(const zk_op *row)
{
    return row->path + strlen(row->store->options.root) + 1;
}

static bool is_listed(const zk_op *list, const char *mutex)
{
    const simba_request *request = list->request;
    return request && (!request->mutex || fnmatch(request->mutex, mutex, 0) == 0);
}

/* Can this mutex be listed, or one whose name begins with it? It must agree with what the pattern says before its first
 * special character. */
static bool is_on_the_way(const zk_op *list, const char *mutex)
{
    const char *pattern = list->request->mutex ? list->request->mutex : "";
    const size_t literal = strcspn(pattern, "*?[\\");
    const size_t length = strlen(mutex);
    return strncmp(pattern, mutex, literal < length ? literal : length) == 0;
}

/* A node that has no contenders, but children, is only a part of their names. */
static void show_row(zk_op *row)
{
    zk_op *list = row->parent;
    if (!is_listed(list, mutex_of(row)) || row->missing || (!row->leader && row->name_count > 0))
        return;
    const simba_listing listing = {mutex_of(row), &row->owner, simba__zk_session_now_ms(&row->store->session),
                                   row->children > 0 ? (int64_t)row->children - 1 : 0};
    if (row->store->host->listed(row->store->host, list->request, &listing) < 0)
        list->no_memory = true;
}

/* Have the nodes below it listed too, as far as their names can be those of mutexes. */
static void list_below(zk_op *row)
{
    zk_op *list = row->parent;
    for (size_t i = 0; i < row->name_count; i++)
        if (strlen(mutex_of(row)) + 1 + strlen(row->names[i]) <= SIMBA_MUTEX_BYTES &&
            !simba__zk_op_add_name(list, mutex_of(row), row->names[i]))
            return;
}

static void row_owner_read(zk_op *row)
{
    zk_op *list = row->parent;
    if (row->vanished) {
        simba__zk_op_start(row);
        return;
    }
    if (row->no_memory || row->error) {
        list->no_memory |= row->no_memory;
        list->error = row->error;
    } else {
        show_row(row);
        list_below(row);
    }
    simba__zk_op_end(row);
}

static void row_children_read(zk_op *row)
{
    if (!row->leader || row->no_memory || row->error || !is_listed(row->parent, mutex_of(row))) {
        row_owner_read(row);
        return;
    }
    simba__zk_op_step(row, row_owner_read);
    simba__zk_call_owner(row, row->path);
    simba__zk_op_go(row);
}

static void read_row(zk_op *row)
{
    if (!row->parent->request) {
        simba__zk_op_end(row);
        return;
    }
    simba__zk_op_step(row, row_children_read);
    simba__zk_call_row(row, row->path);
    simba__zk_op_go(row);
}

static bool begin_row(zk_op *list, const char *mutex)
{
    zk_op *row = simba__zk_op_new(list->store, NULL, read_row);
    if (!row)
        return false;
    row->persists = true;
    row->parent = list;
    row->finished = row_finished;
    row->path = simba__zk_child_path(list->store->options.root, mutex);
    list->rows++;
    if (row->path) {
        simba__zk_op_start(row);
    } else {
        list->no_memory = true;
        simba__zk_op_end(row);
    }
    return true;
}

/* Some rows at a time, until there are none left. Rows may end while others are begun. */
static void list_on(zk_op *list)
{
    if (list->busy)
        return;
    list->busy = true; /* so that a row that ends while it begins does not come here again */
    while (list->request && !list->no_memory && !list->error && list->name_next < list->name_count &&
           list->rows < ROWS_AT_ONCE) {
        const char *mutex = list->names[list->name_next++];
        if (is_on_the_way(list, mutex) && !begin_row(list, mutex))
            list->no_memory = true;
    }
    list->busy = false;
    if (list->rows > 0)
        return;
    if (list->ended)
        simba__zk_op_end(list);
    else if (simba__zk_op_good(list))
        simba__zk_op_complete(list, SIMBA_NOT_MINE, NULL);
}

static void names_read(zk_op *list)
{
    list_on(list);
}

static void read_names(zk_op *list)
{
    simba__zk_op_step(list, names_read);
    simba__zk_call_sync(list);
    simba__zk_call_names(list, list->store->options.root);
    simba__zk_op_go(list);
}

void simba__zk_list(zk_store *self, simba_request *request)
{
    zk_op *op = simba__zk_op_new(self, request, read_names);
    if (op)
        simba__zk_op_start(op);
}

/* --- observers ---------------------------------------------------------------------------------------------- */

/* A mutex that somebody here observes. A watch of its children tells of every change, also of those who wait; only another
 * leader is told on. */
struct zk_topic {
    zk_topic *previous, *next;
    zk_store *store;
    simba_topic *topic; /* NULL: not any more */
    char *path;
    char *leader; /* as told last; NULL: nobody */
    bool known;
    bool again; /* something happened while a procedure was under way */
    bool later; /* there was no memory for one */
    zk_op *op;  /* under way */
};

static void topic_free(zk_topic *topic)
{
    if (topic->previous)
        topic->previous->next = topic->next;
    else
        topic->store->topics = topic->next;
    if (topic->next)
        topic->next->previous = topic->previous;
    simba__free(topic->path);
    simba__free(topic->leader);
    simba__free(topic);
}

static void observe(zk_op *op);
static void observed(zk_op *op);

static void forget_watches(const zk_topic *topic)
{
    for (zk_watch *watch = topic->store->watches; watch; watch = watch->next)
        if (watch->topic == topic)
            watch->topic = NULL;
}

static void observe_later(zk_topic *topic)
{
    topic->later = true;
    forget_watches(topic);
    simba__zk_chores_later(topic->store);
}

static void begin_to_observe(zk_topic *topic)
{
    if (!topic->topic)
        return;
    if (topic->op) {
        topic->again = true;
        return;
    }
    zk_op *op = simba__zk_op_new(topic->store, NULL, observe);
    if (!op) {
        observe_later(topic);
        return;
    }
    op->persists = true;
    op->finished = observed;
    op->topic = topic;
    topic->op = op;
    topic->again = false;
    simba__zk_op_start(op);
}

static void observed(zk_op *op)
{
    zk_topic *topic = op->topic;
    topic->op = NULL;
    op->topic = NULL;
    if (!topic->topic)
        topic_free(topic);
    else if (op->no_memory)
        observe_later(topic);
    else if (topic->again)
        begin_to_observe(topic);
}

static void child_changed(zk_watch *watch, int type)
{
    (void)type;
    if (watch->topic)
        begin_to_observe(watch->topic);
}

static void tell(zk_op *op)
{
    zk_topic *topic = op->topic;
    simba_host *host = op->store->host;
    simba_push push = {.kind = SIMBA_PUSH_CHANGED};
    if (topic->known && op->leader)
        push = (simba_push){SIMBA_PUSH_ACQUIRED, op->owner, simba__zk_session_now_ms(&op->store->session)};
    else if (topic->known)
        push.kind = SIMBA_PUSH_FREED;
    topic->known = true;
    simba__free(topic->leader);
    topic->leader = op->leader;
    op->leader = NULL;
    host->push(host, topic->topic, &push);
    simba__zk_op_end(op);
}

static void leader_read(zk_op *op)
{
    if (!op->topic->topic || op->error || op->no_memory)
        simba__zk_op_end(op);
    else if (op->vanished)
        simba__zk_op_start(op);
    else
        tell(op);
}

static bool is_news(const zk_topic *topic, const char *leader)
{
    return !topic->known || !topic->leader != !leader || (leader && strcmp(topic->leader, leader) != 0);
}

static void children_observed(zk_op *op)
{
    zk_topic *topic = op->topic;
    if (!topic->topic || op->error || op->no_memory || !is_news(topic, op->leader)) {
        simba__zk_op_end(op);
    } else if (op->leader && topic->known) {
        simba__zk_op_step(op, leader_read);
        simba__zk_call_owner(op, topic->path);
        simba__zk_op_go(op);
    } else {
        tell(op);
    }
}

/* A mutex without a node has no children to watch. */
static void made_observed(zk_op *op)
{
    if (!op->topic->topic || op->error || op->no_memory)
        simba__zk_op_end(op);
    else if (!op->missing)
        simba__zk_op_start(op); /* it has one by now */
    else
        children_observed(op);
}

static zk_watch *watch_for(zk_op *op)
{
    zk_watch *watch = simba__zk_watch_new(op->store, child_changed);
    if (watch)
        watch->topic = op->topic;
    else
        op->no_memory = true;
    return watch;
}

static void node_observed(zk_op *op)
{
    zk_watch *watch = op->missing && op->topic->topic && !op->error && !op->no_memory ? watch_for(op) : NULL;
    if (!watch) {
        children_observed(op);
        return;
    }
    simba__zk_op_step(op, made_observed);
    simba__zk_call_exists_watch(op, op->topic->path, watch);
    simba__zk_op_go(op);
}

static void observe(zk_op *op)
{
    zk_watch *watch = op->topic->topic ? watch_for(op) : NULL;
    if (!watch) {
        simba__zk_op_end(op);
        return;
    }
    simba__zk_op_step(op, node_observed);
    simba__zk_call_children_watch(op, op->topic->path, watch);
    simba__zk_op_go(op);
}

int simba__zk_observe(zk_store *self, simba_topic *topic)
{
    zk_topic *ours = simba__calloc(1, sizeof *ours);
    if (!ours)
        return SIMBA_ENOMEM;
    ours->path = simba__zk_child_path(self->options.root, topic->mutex);
    if (!ours->path) {
        simba__free(ours);
        return SIMBA_ENOMEM;
    }
    ours->store = self;
    ours->topic = topic;
    ours->next = self->topics;
    if (ours->next)
        ours->next->previous = ours;
    self->topics = ours;
    topic->backend_data = ours;
    begin_to_observe(ours);
    return 0;
}

void simba__zk_unobserve(zk_store *self, simba_topic *topic)
{
    (void)self;
    zk_topic *ours = topic->backend_data;
    topic->backend_data = NULL;
    ours->topic = NULL;
    forget_watches(ours);
    if (!ours->op)
        topic_free(ours);
}

void simba__zk_topics_connected(zk_store *self)
{
    for (zk_topic *topic = self->topics; topic; topic = topic->next) {
        topic->known = false;
        begin_to_observe(topic);
    }
}

void simba__zk_topics_chores(zk_store *self)
{
    for (zk_topic *topic = self->topics; topic; topic = topic->next) {
        const bool later = topic->later;
        topic->later = false;
        if (later)
            begin_to_observe(topic);
    }
}

void simba__zk_topics_fini(zk_store *self)
{
    while (self->topics)
        topic_free(self->topics);
}
