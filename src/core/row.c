/* See row.h. */
#include "core/row.h"

#include <string.h>

#include "util/clock.h"
#include "util/saturate.h"

bool simba__row_is_free(const simba__row *row, simba__row_now now)
{
    return row->owner.id[0] == '\0' || now.ns >= row->until_ns;
}

void simba__row_show(const simba__row *row, simba__row_now now, simba_owner *ret_owner, int64_t *ret_now_ms)
{
    if (simba__row_is_free(row, now)) {
        memset(ret_owner, 0, sizeof *ret_owner);
        *ret_now_ms = now.epoch_us / 1000;
        return;
    }
    *ret_owner = row->owner;
    /* Counted back from the end of the lease: somebody may have set the wall clock since the grant, which does not
     * move the lease. */
    const int64_t left_ns = simba__sat_sub(row->until_ns, now.ns);
    const int64_t left_ms = left_ns / SIMBA__NS_PER_MS + (left_ns % SIMBA__NS_PER_MS != 0);
    *ret_now_ms = simba__sat_sub(row->owner.transition_at_ms, left_ms);
}

/* Does a request that only a holder makes come from the holder? A contender that lost the reply to an acquire does not know
 * the token, but has the nonce. One that renews or writes knows both. */
static bool is_mine(const simba__row *row, const simba_request *request)
{
    const simba_op op = request->op;
    if (op != SIMBA_OP_ACQUIRE && op != SIMBA_OP_RENEW && op != SIMBA_OP_RELEASE && op != SIMBA_OP_WRITE_NOTE)
        return false;
    const bool any_token = request->token == 0 && op != SIMBA_OP_RENEW && op != SIMBA_OP_WRITE_NOTE;
    return row->nonce == request->nonce && strcmp(row->owner.id, request->id) == 0 &&
           (any_token || row->owner.token == request->token);
}

static void extend(simba__row *row, simba__row_now now, const simba_request *request)
{
    const int64_t now_ms = now.epoch_us / 1000;
    const int64_t lease_ms = simba__sat_add(request->ttl_ms, request->transition_ms);
    row->owner.ttl_at_ms = simba__sat_add(now_ms, request->ttl_ms);
    row->owner.transition_at_ms = simba__sat_add(now_ms, lease_ms);
    row->until_ns = simba__sat_add(now.ns, simba__sat_mul(lease_ms, SIMBA__NS_PER_MS));
    row->version++;
}

static void grant(simba__row *row, simba__row_now now, const simba_request *request)
{
    /* The clock is a floor: if the row is lost with the power, later tokens are still greater. */
    const uint64_t next = row->token + 1;
    const uint64_t floor = row->counts_tokens || now.epoch_us < 0 ? 0 : (uint64_t)now.epoch_us;
    row->token = next > floor ? next : floor;
    memset(&row->owner, 0, sizeof row->owner);
    memcpy(row->owner.id, request->id, strnlen(request->id, SIMBA_ID_MAX));
    row->owner.token = row->token;
    row->owner.acquired_at_ms = now.epoch_us / 1000;
    row->nonce = request->nonce;
    extend(row, now, request);
}

static bool was_revoked(const simba__row *row, const simba_request *request)
{
    return request->token != 0 && row->revoked_token == request->token;
}

static void vacate(simba__row *row)
{
    memset(&row->owner, 0, sizeof row->owner);
    row->nonce = 0;
    row->until_ns = 0;
    row->version++;
}

/* False: a later write has overtaken this one, which its sender gave up, and must not be undone. A write that arrives twice is
 * carried out twice, which changes nothing. */
static bool write_note(simba__row *row, simba__row_now now, const simba_request *request)
{
    if (row->note_token > request->token ||
        (row->note_token == request->token && row->note_number > request->note_number))
        return false;
    row->note_token = request->token;
    row->note_number = request->note_number;
    row->note_written_at_ms = now.epoch_us / 1000;
    return true;
}

bool simba__row_apply(simba__row *row, simba__row_now now, simba_request *request)
{
    simba_reply *reply = &request->reply;
    const bool is_free = simba__row_is_free(row, now);
    const bool mine = !is_free && is_mine(row, request);
    bool changed = false;

    reply->status = 0;
    reply->outcome = SIMBA_NOT_MINE;
    switch (request->op) {
    case SIMBA_OP_ACQUIRE:
        if (is_free && row->token >= SIMBA__TOKEN_MAX)
            reply->status = SIMBA_ESTORE;
        else if (is_free)
            grant(row, now, request);
        else if (mine)
            extend(row, now, request);
        changed = reply->status == 0 && (is_free || mine);
        break;
    case SIMBA_OP_RENEW:
        if (mine)
            extend(row, now, request);
        else if (was_revoked(row, request))
            reply->outcome = SIMBA_REVOKED;
        changed = mine;
        break;
    case SIMBA_OP_RELEASE:
        if (mine)
            vacate(row);
        else if (was_revoked(row, request))
            reply->outcome = SIMBA_REVOKED;
        changed = mine;
        break;
    case SIMBA_OP_FORCE_RELEASE:
        if (!is_free) {
            row->revoked_token = row->owner.token;
            vacate(row);
        }
        changed = !is_free;
        break;
    case SIMBA_OP_WRITE_NOTE:
        changed = mine && write_note(row, now, request);
        if (!changed && was_revoked(row, request))
            reply->outcome = SIMBA_REVOKED;
        break;
    case SIMBA_OP_FORGET:
        changed = is_free && (row->version != 0 || row->note_token != 0); /* somebody has owned it */
        break;
    case SIMBA_OP_READ:
    case SIMBA_OP_READ_NOTE:
    case SIMBA_OP_LIST:
    case SIMBA_OP_EXAMINE:
    case SIMBA_OP_PREPARE:
        break;
    }
    if (changed)
        reply->outcome = SIMBA_MINE;
    simba__row_show(row, now, &reply->owner, &reply->now_ms);
    if (request->op == SIMBA_OP_WRITE_NOTE || request->op == SIMBA_OP_READ_NOTE)
        reply->now_ms = now.epoch_us / 1000; /* on the scale of note_written_at_ms, not of the owner's times */
    return changed;
}
