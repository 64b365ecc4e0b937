/* The contender, on which the other doors are built. core/telling.h decides what its callbacks are told. */
#include <simba.h>

#include "core/telling.h"
#include "runtime/worknote.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/name.h"
#include "util/sized.h"

/* Callbacks that few contenders have. */
struct rare {
    simba_changed_fn on_changed;
    simba_freed_fn on_freed;
    simba_noted_fn on_noted;
};

struct simba_contender {
    simba__member member; /* first */
    simba_acquired_fn on_acquired;
    simba_released_fn on_released;
    void *user;
    const struct rare *rare; /* NULL: it has none of these */
    simba__telling telling;
};

static simba_contender *of_member(simba__member *member)
{
    return (simba_contender *)(void *)member;
}

static void told(simba__member *member, const simba__actions *actions)
{
    simba_contender *contender = of_member(member);
    if (simba__telling_note(&contender->telling, actions, contender->rare && contender->rare->on_changed))
        simba__strand_post(&member->party.strand);
}

static void noted(simba__party *party)
{
    simba_contender *contender = (simba_contender *)(void *)party;
    if (!contender->rare || !contender->rare->on_noted)
        return;
    contender->telling.noted = true;
    simba__strand_post(&party->strand);
}

static int tell_note(simba_contender *contender)
{
    simba__party *party = &contender->member.party;
    if (!contender->telling.noted)
        return -1;
    contender->telling.noted = false;
    if (!party->running)
        return 0;
    simba__turn_pause(&party->client->turn);
    contender->rare->on_noted(contender, contender->user);
    simba__enter(&party->client->turn);
    return 1;
}

static int run_one(simba__party *party)
{
    simba_contender *contender = (simba_contender *)(void *)party;
    simba__member *member = &contender->member;
    simba__tell tell;
    if (contender->telling.acquired)
        simba__member_look(member);
    const char *told_id = contender->telling.told.id;
    const bool tells = simba__telling_take(&contender->telling, &member->machine.owner, &tell);
    simba__name_replace(told_id, contender->telling.told.id);
    if (!tells)
        return tell_note(contender);
    int ran = 0;
    simba__turn_pause(&party->client->turn);
    if (tell.acquired && contender->on_acquired) {
        simba__member_say(member, "callback acquired");
        contender->on_acquired(contender, &tell.state, contender->user);
        simba__member_say(member, "returned");
        ran++;
    }
    if (tell.released && contender->on_released) {
        simba__member_say(member, "callback released");
        contender->on_released(contender, &tell.state, tell.reason, contender->user);
        simba__member_say(member, "returned");
        ran++;
    }
    if (tell.changed) {
        contender->rare->on_changed(contender, &tell.state, contender->user);
        ran++;
    }
    simba__enter(&party->client->turn);
    if (tell.ack)
        simba__member_ack(member);
    return ran;
}

static void free_contender(simba_contender *contender)
{
    simba__free((void *)(uintptr_t)contender->rare);
    simba__free(contender);
}

static void destroy(simba__party *party)
{
    simba_contender *contender = (simba_contender *)(void *)party;
    simba__name_drop(contender->telling.told.id);
    simba__member_fini(&contender->member);
    if (contender->rare && contender->rare->on_freed)
        contender->rare->on_freed(contender->user);
    free_contender(contender);
}

static const simba__member_type type = {
    .party = {.event = simba__member_step, .run_one = run_one, .destroy = destroy, .noted = noted, .is_member = true},
    .told = told,
};

static int set_rare(simba_contender *contender, const simba_contender_options *options, simba_error *err)
{
    if (!options->on_changed && !options->on_freed && !options->on_noted)
        return 0;
    struct rare *rare = simba__malloc(sizeof *rare);
    if (!rare)
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    *rare = (struct rare){options->on_changed, options->on_freed, options->on_noted};
    contender->rare = rare;
    return 0;
}

int simba_contender_new(simba_client *client, const char *mutex, const simba_contender_options *options,
                        simba_error *err, simba_contender **ret_contender)
{
    if (!client || !ret_contender)
        return simba__fail(err, SIMBA_EINVAL, "%s is NULL", client ? "ret_contender" : "client");
    simba_contender_options own = SIMBA_CONTENDER_OPTIONS_INIT;
    int rc = simba__sized_take("simba_contender_options", options, &own, err);
    if (rc < 0)
        return rc;
    simba_contender *contender = simba__calloc(1, sizeof *contender);
    if (!contender)
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    if (!(client->backend->caps & SIMBA_CAP_NOTE))
        own.on_noted = NULL;
    contender->on_acquired = own.on_acquired;
    contender->on_released = own.on_released;
    contender->user = own.user;
    contender->member.hears_notes = own.on_noted != NULL;
    rc = set_rare(contender, &own, err);
    if (rc == 0)
        rc = simba__member_init(&contender->member, &type, client, mutex, own.id, &own.timing, err);
    if (rc < 0) {
        free_contender(contender);
        return rc;
    }
    contender->member.party.curious = own.on_changed || own.on_noted;
    *ret_contender = contender;
    return 0;
}

int simba_contender_start(simba_contender *contender)
{
    return contender ? simba__member_public_start(&contender->member) : SIMBA_EINVAL;
}

int simba_contender_stop(simba_contender *contender)
{
    return contender ? simba__member_public_stop(&contender->member) : SIMBA_EINVAL;
}

void simba_contender_free(simba_contender *contender)
{
    if (contender)
        simba__party_free(&contender->member.party);
}

void simba_contender_discard(simba_contender *contender)
{
    if (contender)
        simba__party_discard(&contender->member.party);
}

const char *simba_contender_mutex(const simba_contender *contender)
{
    return contender ? contender->member.party.topic->mutex : NULL;
}

const char *simba_contender_id(const simba_contender *contender)
{
    return contender ? contender->member.id : NULL;
}

simba_status simba_contender_status(const simba_contender *contender)
{
    return contender ? simba__member_status(&contender->member) : SIMBA_STATUS_INITIAL;
}

int64_t simba_contender_held_for_ms(const simba_contender *contender)
{
    return contender ? simba__member_held_for_ns(&contender->member) / SIMBA__NS_PER_MS : 0;
}

int simba_contender_lease(const simba_contender *contender, simba_lease *ret_lease)
{
    return contender && ret_lease ? simba__member_lease(&contender->member, ret_lease) : SIMBA_EINVAL;
}

bool simba_contender_is_owner(const simba_contender *contender)
{
    return contender && simba__member_held_for_ns(&contender->member) > 0;
}

bool simba_contender_in_ttl(const simba_contender *contender)
{
    return contender && simba__member_ttl_for_ns(&contender->member) > 0;
}

uint64_t simba_contender_token(const simba_contender *contender)
{
    return contender ? simba__member_token(&contender->member) : 0;
}

int64_t simba_contender_owner_left_ms(simba_contender *contender)
{
    return contender ? simba__member_owner_left_ms(&contender->member) : 0;
}

int simba_contender_grant(simba_contender *contender, simba_grant *ret_grant)
{
    return contender && ret_grant ? simba__member_grant(&contender->member, ret_grant) : SIMBA_EINVAL;
}

int simba_contender_owner(simba_contender *contender, simba_owner *ret_owner)
{
    return contender && ret_owner ? simba__member_owner(&contender->member, ret_owner) : SIMBA_EINVAL;
}

int simba_contender_note_set(simba_contender *contender, const void *bytes, size_t length, simba_error *err)
{
    return contender ? simba__worknote_set(&contender->member, 0, bytes, length, err)
                     : simba__fail(err, SIMBA_EINVAL, "contender is NULL");
}

int simba_contender_note(simba_contender *contender, simba_error *err, simba_note *ret_note)
{
    if (!contender || !ret_note)
        return simba__fail(err, SIMBA_EINVAL, "%s is NULL", contender ? "ret_note" : "contender");
    return simba__worknote_get(&contender->member, err, ret_note);
}
