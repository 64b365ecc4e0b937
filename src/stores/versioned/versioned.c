/* See versioned.h. */
#include "stores/versioned/versioned.h"

#include <string.h>

#include "core/calendar.h"
#include "util/assert.h"
#include "util/clock.h"
#include "util/saturate.h"

enum { KEPT_MS = 60000 };

/* Others compare records at whole seconds, so a renewal within the same second would look like none. */
#define RENEWED_STEP_US INT64_C(1000000)

void simba__versioned_init(versioned_mutex *m)
{
    memset(m, 0, sizeof *m);
    m->stale = true;
}

void simba__versioned_begin(versioned_mutex *m)
{
    m->read = m->wrote = m->carried_out = false;
    m->rounds = 0;
}

bool simba__versioned_is_free(const versioned_mutex *m, simba_local now)
{
    return !m->known.held || simba__sat_sub(now.ns, m->since.ns) >= simba__sat_mul(m->known.lease_ms, SIMBA__NS_PER_MS);
}

void simba__versioned_show(const versioned_mutex *m, simba__row_now now, simba_owner *ret_owner, int64_t *ret_now_ms)
{
    const versioned_record *known = &m->known;
    memset(ret_owner, 0, sizeof *ret_owner);
    *ret_now_ms = now.epoch_us / 1000;
    if (simba__versioned_is_free(m, (simba_local){now.ns}))
        return;
    const int64_t over_ns = simba__sat_add(m->since.ns, simba__sat_mul(known->lease_ms, SIMBA__NS_PER_MS));
    const int64_t left_ms = simba__sat_sub(over_ns, now.ns) / SIMBA__NS_PER_MS + 1;
    strcpy(ret_owner->id, known->id);
    ret_owner->token = known->token;
    ret_owner->acquired_at_ms = known->acquired_us / 1000;
    ret_owner->ttl_at_ms = ret_owner->transition_at_ms = simba__sat_add(*ret_now_ms, left_ms);
}

simba_local simba__versioned_keep_until(const versioned_mutex *m)
{
    const int64_t lease_ms = m->known.held ? m->known.lease_ms : 0;
    const int64_t kept_ms = simba__sat_add(simba__sat_mul(lease_ms, 2), KEPT_MS);
    if (!m->unsettled && (m->stale || !m->known.held))
        return (simba_local){0};
    const simba_local from = m->unsettled && m->wrote_at.ns > m->since.ns ? m->wrote_at : m->since;
    return (simba_local){simba__sat_add(from.ns, simba__sat_mul(kept_ms, SIMBA__NS_PER_MS))};
}

/* --- what the store says ---------------------------------------------------------------------------- */

/* Is it what our write was to leave? Nobody else writes the same nonce, and of one nonce each write has a later time. */
static bool is_wanted(const versioned_record *seen, const versioned_record *wanted)
{
    if (!seen->exists || !wanted->exists)
        return seen->exists == wanted->exists;
    return seen->held == wanted->held && seen->nonce == wanted->nonce && seen->token == wanted->token &&
           seen->renewed_us == wanted->renewed_us && seen->note_token == wanted->note_token &&
           seen->note_number == wanted->note_number && seen->revoked_nonce == wanted->revoked_nonce;
}

/* Has its holder renewed it, or is it somebody else's? As client-go judges: by what a holder writes with each renewal. A label or an
 * annotation that others change prolongs nothing. A time that cannot be read may hide a renewal. */
static bool is_renewed(const versioned_record *seen, const versioned_record *before)
{
    return seen->renewed_us == 0 || seen->renewed_us != before->renewed_us ||
           seen->acquired_us != before->acquired_us || seen->lease_ms != before->lease_ms ||
           seen->held != before->held || seen->grants != before->grants || seen->nonce != before->nonce ||
           seen->token != before->token || strcmp(seen->id, before->id) != 0;
}

unsigned simba__versioned_saw(versioned_mutex *m, const versioned_record *record, bool asked, simba_local now)
{
    const versioned_record before = m->known;
    const bool vanished = asked && record->exists != before.exists;
    const bool stepped_back = asked && record->exists && record->version < m->asked_after;
    unsigned changed = 0;
    if (stepped_back && !m->doubted) {
        m->doubted = m->stale = true; /* one answer proves nothing */
        return 0;
    }
    m->doubted &= !asked;
    if (asked && m->unsettled && is_wanted(record, &m->wanted)) {
        m->carried_out = m->wrote;
        m->unsettled = false;
    } else if (asked && m->unsettled && (!record->exists || record->version != m->replaced)) {
        m->unsettled = false; /* another write came first, so ours has failed or will */
    }
    m->read |= asked;
    m->stale &= !asked;
    if (record->version <= before.version && !vanished && !stepped_back)
        return 0; /* seen before; or a watch has overtaken this answer, or the other way round */
    m->known = *record;
    if (record->version < before.version && !stepped_back)
        m->known.version = before.version;
    if (record->last_token < before.last_token)
        m->known.last_token = before.last_token;
    if (stepped_back)
        changed |= VERSIONED_STEPPED_BACK;
    if (is_renewed(record, &before))
        m->since = now;
    if (record->held != before.held || record->token != before.token || record->nonce != before.nonce ||
        strcmp(record->id, before.id) != 0)
        changed |= VERSIONED_OWNER_CHANGED;
    if (record->note_token != before.note_token || record->note_number != before.note_number ||
        record->note_written_at_ms != before.note_written_at_ms)
        changed |= VERSIONED_NOTE_CHANGED;
    return changed;
}

void simba__versioned_conflict(versioned_mutex *m)
{
    m->stale = true;
    m->unsettled = false;
}

void simba__versioned_lost(versioned_mutex *m)
{
    m->stale = true;
}

/* --- what to write ---------------------------------------------------------------------------------- */

/* Changes with every write, and grows. */
static void stamp(versioned_record *wanted, simba__row_now now)
{
    const int64_t later_us = simba__sat_add(wanted->renewed_us, RENEWED_STEP_US);
    const bool is_absurd = later_us / 1000000 >= SIMBA__CALENDAR_LAST_S;
    wanted->renewed_us = later_us > now.epoch_us && !is_absurd ? later_us : now.epoch_us;
}

static void extend(versioned_record *wanted, const simba_request *request, simba__row_now now)
{
    wanted->lease_ms = simba__sat_add(request->ttl_ms, request->transition_ms);
    stamp(wanted, now);
}

/* The version that is replaced, unless the versions are behind the tokens. */
static uint64_t next_token(const versioned_record *known)
{
    return known->version > known->last_token ? known->version : known->last_token + 1;
}

static void grant(versioned_record *wanted, const simba_request *request, simba__row_now now)
{
    memset(wanted->id, 0, sizeof wanted->id);
    memcpy(wanted->id, request->id, strnlen(request->id, SIMBA_ID_MAX));
    wanted->held = true;
    wanted->nonce = request->nonce;
    wanted->token = next_token(wanted);
    wanted->last_token = wanted->token;
    wanted->acquired_us = now.epoch_us;
    wanted->grants++;
    extend(wanted, request, now);
}

static void vacate(versioned_record *wanted, simba__row_now now)
{
    memset(wanted->id, 0, sizeof wanted->id);
    wanted->held = false;
    wanted->nonce = wanted->token = 0;
    stamp(wanted, now);
}

/* --- what to do next -------------------------------------------------------------------------------- */

/* Does the request come from the holder? One that lost the answer to its acquire does not know the token, but has the nonce. */
static bool is_mine(const versioned_mutex *m, const simba_request *request)
{
    const versioned_record *known = &m->known;
    const simba_op op = request->op;
    const bool any_token = request->token == 0 && (op == SIMBA_OP_ACQUIRE || op == SIMBA_OP_RELEASE);
    return known->held && known->token != 0 && known->nonce == request->nonce && strcmp(known->id, request->id) == 0 &&
           (any_token || known->token == request->token);
}

static versioned_ask answer(const versioned_mutex *m, simba_request *request, simba_outcome outcome, simba__row_now now)
{
    simba_reply *reply = &request->reply;
    *reply = (simba_reply){.outcome = outcome};
    simba__versioned_show(m, now, &reply->owner, &reply->now_ms);
    if (outcome == SIMBA_MINE && (request->op == SIMBA_OP_ACQUIRE || request->op == SIMBA_OP_RENEW)) {
        /* As it was written: what came after that follows as news. */
        strcpy(reply->owner.id, m->wanted.id);
        reply->owner.token = m->wanted.token;
        reply->owner.acquired_at_ms = m->wanted.acquired_us / 1000;
        reply->owner.ttl_at_ms = simba__sat_add(reply->now_ms, request->ttl_ms);
        reply->owner.transition_at_ms = simba__sat_add(reply->owner.ttl_at_ms, request->transition_ms);
    }
    return VERSIONED_ANSWER;
}

/* No: but only if that is not yesterday's news. */
static versioned_ask refuse(const versioned_mutex *m, simba_request *request, simba__row_now now)
{
    const bool waits = request->op == SIMBA_OP_ACQUIRE && request->queue;
    const bool holds =
        request->op == SIMBA_OP_RENEW || request->op == SIMBA_OP_RELEASE || request->op == SIMBA_OP_WRITE_NOTE;
    const bool revoked = holds && request->nonce != 0 && m->known.revoked_nonce == request->nonce;
    if (!m->read && !(m->live && waits))
        return VERSIONED_READ;
    return answer(m, request, revoked ? SIMBA_REVOKED : SIMBA_NOT_MINE, now);
}

versioned_ask simba__versioned_next(versioned_mutex *m, simba_request *request, simba__row_now now)
{
    const versioned_record *known = &m->known;
    m->asked_after = known->version;
    if (m->carried_out)
        return answer(m, request, SIMBA_MINE, now);
    if (m->rounds++ >= VERSIONED_ROUNDS_MOST)
        return VERSIONED_GIVE_UP;
    if (m->stale)
        return VERSIONED_READ;
    const bool is_free = simba__versioned_is_free(m, (simba_local){now.ns});
    const bool mine = !is_free && is_mine(m, request);
    const bool overtaken = known->note_token > request->token ||
                           (known->note_token == request->token && known->note_number > request->note_number);
    /* A write whose fate is unknown can still be carried out while the version that it replaces is there. Perhaps it is our own
     * acquire: another version keeps it out, and then the request is decided anew. */
    const bool haunted = m->unsettled && known->exists && known->version == m->replaced;
    const bool behind = request->op == SIMBA_OP_ACQUIRE  ? next_token(known) > SIMBA__TOKEN_MAX
                        : request->op == SIMBA_OP_FORGET ? next_token(known) > known->version
                                                         : false;
    bool writes = false;
    versioned_record wanted = *known;
    switch (request->op) {
    case SIMBA_OP_ACQUIRE:
        if (!known->exists)
            return VERSIONED_CREATE;
        writes = mine || is_free;
        if (mine)
            extend(&wanted, request, now);
        else if (is_free)
            grant(&wanted, request, now);
        break;
    case SIMBA_OP_RENEW:
        writes = mine;
        extend(&wanted, request, now);
        break;
    case SIMBA_OP_RELEASE:
        writes = mine || (is_free && haunted);
        vacate(&wanted, now);
        break;
    case SIMBA_OP_FORCE_RELEASE:
        writes = !is_free;
        if (known->nonce != 0) /* a Go program has none */
            wanted.revoked_nonce = known->nonce;
        vacate(&wanted, now);
        break;
    case SIMBA_OP_WRITE_NOTE:
        writes = mine && !overtaken;
        wanted.note_token = request->token;
        wanted.note_number = request->note_number;
        wanted.note_written_at_ms = now.epoch_us / 1000;
        break;
    case SIMBA_OP_FORGET:
        writes = known->exists && is_free;
        wanted.exists = false;
        break;
    case SIMBA_OP_READ:
    case SIMBA_OP_READ_NOTE:
        break;
    case SIMBA_OP_LIST:
    case SIMBA_OP_EXAMINE:
    case SIMBA_OP_PREPARE:
        SIMBA__ASSERT(!"not about one mutex");
    }
    if (!writes)
        return refuse(m, request, now);
    if (behind && !mine)
        return m->read ? VERSIONED_BEHIND : VERSIONED_READ;
    m->wrote_at.ns = now.ns;
    m->wanted = wanted;
    m->replaced = known->version;
    m->unsettled = true;
    m->wrote = request->op != SIMBA_OP_RELEASE || mine;
    return wanted.exists ? VERSIONED_WRITE : VERSIONED_REMOVE;
}
