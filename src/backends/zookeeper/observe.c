#include "backends/zookeeper/observe.h"

#include <string.h>

#include "backends/zookeeper/look.h"
#include "backends/zookeeper/notes.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/mem.h"

typedef enum zk_topic_state {
    ZK_TOPIC_RESTS,       /* a watch fires when something happens */
    ZK_TOPIC_LOOKS,       /* a procedure is under way */
    ZK_TOPIC_LOOKS_AGAIN, /* the same, and something has happened since it began */
    ZK_TOPIC_LATER,       /* there was no memory for a procedure: a timer tries again */
    ZK_TOPIC_STATES,
} zk_topic_state;

/* A mutex that somebody here observes. A watch of its children reports every change, also of those who wait; the
 * observers hear only of another leader. A second watch is for the note. */
typedef struct zk_topic {
    simba__list_item link;
    zk_topics *topics;
    simba_topic *topic; /* NULL: nobody observes it any more */
    zk_watch *watch, *note_watch;
    char *leader;       /* as the observers were told last; NULL: nobody */
    int64_t note_mzxid; /* of the latest write of the note; 0: none */
    bool known;         /* the observers were told something in this session */
    zk_topic_state state;
    struct observation *now; /* LOOKS, LOOKS_AGAIN */
} zk_topic;

struct observation {
    zk_look look; /* first */
    zk_topic *topic;
    /* The node that it sets a watch on. */
    enum {
        OBSERVES_NOTE,     /* only the note: the children are watched already */
        OBSERVES_CHILDREN, /* the children; and the note, unless that is watched already */
        OBSERVES_MAKING,   /* that somebody makes the node: a mutex without a node has no children to watch */
    } aim;
};

static const zk_procedure observing;

static void move(zk_topic *topic, zk_topic_state to)
{
    static const bool allowed[ZK_TOPIC_STATES][ZK_TOPIC_STATES] = {
        [ZK_TOPIC_RESTS] = {[ZK_TOPIC_LOOKS] = true, [ZK_TOPIC_LATER] = true},
        [ZK_TOPIC_LOOKS] = {[ZK_TOPIC_LOOKS_AGAIN] = true, [ZK_TOPIC_RESTS] = true},
        [ZK_TOPIC_LOOKS_AGAIN] = {[ZK_TOPIC_LOOKS_AGAIN] = true, [ZK_TOPIC_RESTS] = true},
        [ZK_TOPIC_LATER] = {[ZK_TOPIC_LATER] = true, [ZK_TOPIC_LOOKS] = true},
    };
    SIMBA__ASSERT(allowed[topic->state][to]);
    topic->state = to;
    SIMBA__ASSERT((to == ZK_TOPIC_LOOKS || to == ZK_TOPIC_LOOKS_AGAIN) == (topic->now != NULL));
}

static void topic_free(zk_topic *topic)
{
    simba__list_remove(&topic->link);
    simba__zk_watch_drop(&topic->watch);
    simba__zk_watch_drop(&topic->note_watch);
    simba__free(topic->leader);
    simba__free(topic);
}

static void observe_later(zk_topic *topic)
{
    enum { LATER_MS = 20 };
    simba_host *host = topic->topics->ops->session->host;
    simba_timer *timer = &topic->topics->later;
    move(topic, ZK_TOPIC_LATER);
    simba__zk_watch_drop(&topic->watch);
    if (timer->index == 0)
        host->timer_set(host, timer, (simba_local){host->now(host).ns + LATER_MS * SIMBA__NS_PER_MS});
}

static void begin_to_observe(zk_topic *topic)
{
    if (!topic->topic)
        return;
    if (topic->now) {
        move(topic, ZK_TOPIC_LOOKS_AGAIN);
        return;
    }
    topic->now = simba__zk_look_new(topic->topics->ops, &observing, sizeof *topic->now, NULL, topic->topic->mutex);
    if (!topic->now) {
        observe_later(topic);
        return;
    }
    topic->now->topic = topic;
    move(topic, ZK_TOPIC_LOOKS);
    simba__zk_op_start(&topic->now->look.op);
}

static void ended(zk_op *op)
{
    zk_topic *topic = ((struct observation *)op)->topic;
    const bool again = topic->state == ZK_TOPIC_LOOKS_AGAIN;
    topic->now = NULL;
    move(topic, ZK_TOPIC_RESTS);
    if (!topic->topic)
        topic_free(topic);
    else if (op->phase == ZK_OP_CLOSED)
        return;
    else if (op->error == ZK_NO_MEMORY)
        observe_later(topic);
    else if (again)
        begin_to_observe(topic);
}

/* The children have changed, or the note. */
static void something_changed(void *owner, int type)
{
    (void)type;
    begin_to_observe(owner);
}

static void tell(struct observation *o)
{
    zk_topic *topic = o->topic;
    const zk_session *session = o->look.op.ops->session;
    simba_push push = {.kind = SIMBA_PUSH_CHANGED};
    if (topic->known && o->look.leader)
        push = (simba_push){SIMBA_PUSH_ACQUIRED, o->look.owner, simba__zk_session_now_ms(session)};
    else if (topic->known)
        push.kind = SIMBA_PUSH_FREED;
    topic->known = true;
    simba__free(topic->leader);
    topic->leader = o->look.leader;
    o->look.leader = NULL;
    session->host->push(session->host, topic->topic, &push);
    simba__zk_op_end(&o->look.op);
}

static bool is_news(const zk_topic *topic, const char *leader)
{
    return !topic->known || !topic->leader != !leader || (leader && strcmp(topic->leader, leader) != 0);
}

static void made_found(zk_op *op, const zk_result *result)
{
    if (result->rc == ZNONODE)
        return;
    simba__zk_look_see((zk_look *)op, ZK_SIGHT_NONE);
    simba__zk_op_note(op, result->rc);
}

static zk_watch *watch_for(struct observation *o)
{
    return simba__zk_watch_new(&o->look.op, &o->topic->watch, o->topic, something_changed);
}

static void wait_for_making(struct observation *o)
{
    zk_watch *watch = watch_for(o);
    o->aim = OBSERVES_MAKING;
    if (watch)
        simba__zk_call_exists(&o->look.op, o->look.path, watch, made_found);
    simba__zk_op_go(&o->look.op);
}

static void observe_on(zk_op *op)
{
    struct observation *o = (struct observation *)op;
    zk_look *look = &o->look;
    const bool missing = look->sight == ZK_SIGHT_MISSING;
    if (!o->topic->topic || op->error || o->aim == OBSERVES_NOTE) {
        simba__zk_op_end(op);
    } else if (look->sight == ZK_SIGHT_VANISHED || (o->aim == OBSERVES_MAKING && !missing)) {
        simba__zk_op_start(op); /* another one leads by now, or the mutex has a node */
    } else if (missing && o->aim == OBSERVES_CHILDREN) {
        wait_for_making(o);
    } else if (look->sight == ZK_SIGHT_ASKED) {
        tell(o);
    } else if (!is_news(o->topic, look->leader)) {
        simba__zk_op_end(op);
    } else if (look->leader && o->topic->known) {
        simba__zk_look_ask(look);
        simba__zk_op_go(op);
    } else {
        tell(o);
    }
}

/* The first push, CHANGED, covers the note too. */
static void note_found(zk_op *op, const zk_result *result)
{
    zk_topic *topic = ((struct observation *)op)->topic;
    simba_host *host = op->ops->session->host;
    const int64_t mzxid = result->rc == ZOK && result->stat ? result->stat->mzxid : 0;
    if (result->rc != ZOK && result->rc != ZNONODE) {
        simba__zk_op_note(op, result->rc);
        return;
    }
    if (topic->topic && topic->known && mzxid != topic->note_mzxid)
        host->push(host, topic->topic, &(simba_push){.kind = SIMBA_PUSH_NOTED});
    topic->note_mzxid = mzxid;
}

static void watch_note(struct observation *o)
{
    zk_op *op = &o->look.op;
    zk_topic *topic = o->topic;
    char *path = simba__zk_note_path(op->ops, topic->topic->mutex);
    zk_watch *watch = path ? simba__zk_watch_new(op, &topic->note_watch, topic, something_changed) : NULL;
    if (watch)
        simba__zk_call_exists(op, path, watch, note_found);
    else
        simba__zk_op_note(op, ZK_NO_MEMORY);
    simba__free(path);
}

/* Each watch stays until it has fired; set the one that is missing. A procedure that was begun for the children begins
 * anew for them. */
static void observe(zk_op *op)
{
    struct observation *o = (struct observation *)op;
    simba__zk_look_forget(&o->look);
    if (o->aim != OBSERVES_NOTE || !o->topic->watch)
        o->aim = OBSERVES_CHILDREN;
    if (o->topic->topic && !o->topic->note_watch)
        watch_note(o);
    zk_watch *watch = o->topic->topic && o->aim == OBSERVES_CHILDREN ? watch_for(o) : NULL;
    if (watch)
        simba__zk_call_children(op, o->look.path, watch, simba__zk_look_listed);
    simba__zk_op_go(op);
}

static const zk_procedure observing = {
    .run = observe, .step = observe_on, .ended = ended, .fini = simba__zk_look_fini, .persists = true};

int simba__zk_observe(zk_topics *topics, simba_topic *topic)
{
    zk_topic *ours = simba__calloc(1, sizeof *ours);
    if (!ours)
        return SIMBA_ENOMEM;
    ours->topics = topics;
    ours->topic = topic;
    simba__list_append(&topics->all, &ours->link);
    topic->backend_data = ours;
    begin_to_observe(ours);
    return 0;
}

void simba__zk_unobserve(simba_topic *topic)
{
    zk_topic *ours = topic->backend_data;
    topic->backend_data = NULL;
    ours->topic = NULL;
    simba__zk_watch_drop(&ours->watch);
    simba__zk_watch_drop(&ours->note_watch);
    if (!ours->now)
        topic_free(ours);
}

void simba__zk_topics_anew(zk_topics *topics)
{
    for (simba__list_item *link = topics->all.first; link; link = link->next) {
        zk_topic *topic = SIMBA__OF_ITEM(link, zk_topic, link);
        topic->known = false;
        begin_to_observe(topic);
    }
}

/* There may be memory again. */
static void try_again(simba_timer *timer, simba_local now)
{
    zk_topics *topics = (zk_topics *)(void *)((char *)timer - offsetof(zk_topics, later));
    (void)now;
    for (simba__list_item *link = topics->all.first; link; link = link->next) {
        zk_topic *topic = SIMBA__OF_ITEM(link, zk_topic, link);
        if (topic->state == ZK_TOPIC_LATER)
            begin_to_observe(topic);
    }
    simba__zk_session_flush(topics->ops->session);
}

int simba__zk_topics_init(zk_topics *topics, zk_ops *ops)
{
    *topics = (zk_topics){.ops = ops, .later.fire = try_again};
    return ops->session->host->timer_add(ops->session->host, &topics->later);
}

void simba__zk_topics_fini(zk_topics *topics)
{
    while (topics->all.first)
        topic_free(SIMBA__OF_ITEM(topics->all.first, zk_topic, link));
}
