/* Carries out the plan: starts and stops, and all faults; and heals everything in the end. */
#include <string.h>

#include "sim/world.h"

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void observe(sim *s, const sim_item *item)
{
    if (s->handles == SIM_HANDLES || !s->process[item->who].alive)
        return;
    sim_handle *handle = &s->handle[s->handles];
    handle->process = item->who;
    handle->mutex = (uint8_t)item->arg;
    handle->id = "";
    snprintf(handle->name, sizeof handle->name, "%c/observer%u", 'a' + item->who, s->handles - s->plan->contenders);
    handle_make(s, handle);
    s->handles++;
    handle_start(s, handle);
}

static void contender_item(sim *s, const sim_item *item)
{
    sim_handle *handle = &s->handle[item->who];
    const int64_t lease_ns = s->timing.ttl_ns + s->timing.transition_ns;
    switch ((sim_item_kind)item->kind) {
    case SIM_ITEM_START:
        handle_start(s, handle);
        break;
    case SIM_ITEM_STOP:
        handle_stop(s, handle);
        break;
    case SIM_ITEM_STOP_INSIDE:
        handle->stop_inside = true;
        break;
    default:
        handle->slow_ns = min64(item->for_ns, lease_ns + lease_ns / 2);
        handle->slow_until = s->now + 2 * lease_ns;
    }
}

/* A fault that slows or stops messages, or the one that should answer them, is an excuse for losing a lease. */
static void trouble(sim *s, const sim_item *item, unsigned process, int64_t until)
{
    const int64_t late = item->kind == SIM_ITEM_DELAY ? item->arg * SIM_MS : 0;
    check_trouble(s, process, s->now, until + late);
    if (process < SIM_PROCESSES)
        for (unsigned i = 0; i < s->handles; i++) {
            if (s->handle[i].process == process)
                sim_log(s, s->handle[i].name, "fault %s %lld", sim_item_name((sim_item_kind)item->kind),
                        (long long)until);
        }
    else
        sim_log(s, "store", "fault %s %lld", sim_item_name((sim_item_kind)item->kind), (long long)until);
}

static void process_item(sim *s, const sim_item *item, int64_t until)
{
    sim_process *process = &s->process[item->who];
    if (s->model && !process->alive && (item->kind == SIM_ITEM_PAUSE || item->kind == SIM_ITEM_STALL))
        return; /* there is nothing to pause */
    trouble(s, item, item->who, until);
    switch ((sim_item_kind)item->kind) {
    case SIM_ITEM_PAUSE:
        if (until > process->paused_until)
            process->paused_until = until;
        break;
    case SIM_ITEM_STALL:
        process->stall_ns = until - s->now;
        break;
    case SIM_ITEM_LOSE:
        process->lose_until = until;
        process->lose = item->arg;
        break;
    case SIM_ITEM_DELAY:
        process->delay_until = until;
        process->delay_ns = item->arg * SIM_MS;
        break;
    case SIM_ITEM_REPEAT:
        process->repeat_until = until;
        process->repeat = item->arg;
        break;
    default:
        process->cut_until = until;
        process->cut = item->arg;
    }
}

static void store_item(sim *s, const sim_item *item, int64_t until)
{
    switch ((sim_item_kind)item->kind) {
    case SIM_ITEM_STORE_RATE:
        sim_clock_set_rate(&s->store.clock, s->now, item->arg);
        break;
    case SIM_ITEM_STORE_EPOCH:
        if (!s->model) {
            s->store.epoch_ms += item->arg;
        } else { /* Redis: its replicas fall behind instead; SQL: the clock only steps back */
            check_trouble(s, SIM_PROCESSES, s->now, until);
            s->model->fault(s, item, until);
        }
        break;
    case SIM_ITEM_FORCE:
        sim_log(s, "store", "fault force-release %lld", (long long)s->now);
        if (store_is_away(s))
            break;
        if (s->model)
            s->model->force_release(s, (unsigned)item->arg);
        else
            store_force_release(s, (unsigned)item->arg);
        break;
    default: /* of the store itself. Models of several servers say for how long that is trouble, and so does a locked row. */
        if (s->model && (!sim_is_sql((sim_store_kind)s->plan->store) || item->kind == SIM_ITEM_LOCK_ROW))
            sim_log(s, "store", "fault %s %lld", sim_item_name((sim_item_kind)item->kind), (long long)until);
        else
            trouble(s, item, SIM_PROCESSES, until);
        if (s->model)
            s->model->fault(s, item, until);
        else if (item->kind == SIM_ITEM_FREEZE)
            s->store.frozen_until = until;
        else
            store_fail_over(s, until - s->now, item->arg);
    }
}

void fault_item(sim *s, const sim_event *event)
{
    const sim_item *item = &s->plan->item[event->arg];
    const int64_t until = min64(s->now + item->for_ns, s->plan->horizon_ns);
    const bool of_contender = item->kind <= SIM_ITEM_SLOW;
    sim_process *process = &s->process[of_contender ? s->handle[item->who].process : item->who];
    if (s->healed && item->kind > SIM_ITEM_STOP)
        return; /* it was to happen to a process that did not run */
    switch ((sim_item_kind)item->kind) {
    case SIM_ITEM_START:
    case SIM_ITEM_STOP:
    case SIM_ITEM_STOP_INSIDE:
    case SIM_ITEM_SLOW:
        if (process_is_paused(s, process))
            sim_plan_event(s, EV_ITEM, 0, process->paused_until + 2000, 0, event->arg);
        else
            contender_item(s, item);
        break;
    case SIM_ITEM_OBSERVE:
        if (process_is_paused(s, process))
            sim_plan_event(s, EV_ITEM, 0, process->paused_until + 2000, 0, event->arg);
        else
            observe(s, item);
        break;
    case SIM_ITEM_KILL:
        process_kill(s, item->who, item->for_ns);
        break;
    case SIM_ITEM_RATE:
        process_set_rate(s, item->who, item->arg);
        break;
    case SIM_ITEM_JUMP:
        process_jump(s, item->who, item->arg * SIM_MS);
        break;
    case SIM_ITEM_UNSUBSCRIBE:
        if (s->model) {
            s->model->lose_subscriptions(s, item->who);
            break;
        }
        memset(s->store.subscribed[item->who], 0, sizeof s->store.subscribed[item->who]);
        sim_plan_event(s, EV_RESUBSCRIBE, item->who, s->now + min64(item->for_ns, 3 * SIM_S), process->boot, 0);
        break;
    case SIM_ITEM_PAUSE:
    case SIM_ITEM_STALL:
    case SIM_ITEM_LOSE:
    case SIM_ITEM_DELAY:
    case SIM_ITEM_REPEAT:
    case SIM_ITEM_CUT:
        process_item(s, item, until);
        break;
    default:
        store_item(s, item, until);
    }
}

void fault_heal(sim *s)
{
    s->healed = true;
    for (unsigned p = 0; p < s->plan->processes; p++) {
        sim_process *process = &s->process[p];
        process->stall_ns = 0;
        process->lose_until = process->delay_until = process->repeat_until = process->cut_until = 0;
        if (!process->alive) /* by now the store knows */
            memset(s->store.subscribed[p], 0, sizeof s->store.subscribed[p]);
    }
    if (s->model)
        s->model->healed(s);
    for (unsigned i = 0; i < s->handles; i++) {
        s->handle[i].slow_until = 0;
        s->handle[i].stop_inside = false;
    }
}
