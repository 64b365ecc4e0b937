/* A party that contends: it carries out the machine of core/contention.h. Contenders, lockers and schedulers differ
 * only in what they do when they are told. */
#ifndef SIMBA_RUNTIME_MEMBER_H
#define SIMBA_RUNTIME_MEMBER_H

#include "runtime/narrator.h"
#include "runtime/party.h"

typedef struct simba__member simba__member;

typedef struct simba__member_type {
    simba__party_type party; /* first */
    /* In a turn: handle acquired, released, changed and done. Send ACK when on_released has returned. */
    void (*told)(simba__member *member, const simba__actions *actions);
    bool acks_at_once; /* nothing has to be waited for */
} simba__member_type;

struct simba__member {
    simba__party party;        /* first */
    simba__contention machine; /* its timing is the client's, or shared with members that have the same */
    const char *id;            /* a name of util/name.h, like that of the owner that the machine knows */
    simba_local owner_until;   /* when the lease of the known owner ends unless it is renewed */
    simba_local waits_since;   /* while it looks for leadership, for the statistics */
    /* For reading without the lock. Where leases are sessions, INT64_MAX means the end of the session, which moves
     * by itself. */
    _Atomic int64_t valid_until_ns;
    _Atomic int64_t ttl_until_ns;
    _Atomic uint64_t token;
    _Atomic bool has_margin; /* the lease ends a stop margin after `valid_until_ns` */
    simba__said said;
    bool writes_note;     /* a write of the note is under way */
    bool note_unsure;     /* the last write went unanswered: the store may still carry it out */
    _Atomic uint32_t use; /* of a grant that lockers share: changes whenever one gets or leaves it. Otherwise 0 */
    uint32_t heard;       /* while it waits: the number of the latest news that it has heard, see core/delivery.h */
    bool hears_notes;     /* reports changes of the note while it runs */
    _Atomic uint64_t plain_token; /* under this grant the note is known to have no record, see worknote.h */
};

/* Checks everything, makes the id, and adds the member to the client. Not in a turn. After a failure nothing of the
 * member is left, and the caller frees its memory. */
int simba__member_init(simba__member *member, const simba__member_type *type, simba_client *client, const char *mutex,
                       const char *id, const simba_timing *timing, simba_error *err);
/* Free what init made; for the type's destroy. */
void simba__member_fini(simba__member *member);

/* In a turn. */
void simba__member_step(simba__party *party, simba__event *event);
void simba__member_start(simba__member *member, simba_local give_up);
void simba__member_ack(simba__member *member);
/* Where leases are sessions: log that this one is overdue, or was renewed after all. */
void simba__member_say_lease(simba__member *member, bool renewed);
/* Look at the clock before calling the application: a process that did not run for a while may have lost the lease
 * of which it is about to tell. */
void simba__member_look(simba__member *member);
/* Before its owner is looked at: hear the news that was kept for it. */
void simba__member_catch_up(simba__member *member);

/* Write a line of the event log around a callback. Any thread. */
void simba__member_say(const simba__member *member, const char *words);

/* The public start and stop of contenders and schedulers. Not in a turn. */
int simba__member_public_start(simba__member *member);
int simba__member_public_stop(simba__member *member);

/* Lock-free. */
int64_t simba__member_held_for_ns(const simba__member *member);
int64_t simba__member_ttl_for_ns(const simba__member *member);
uint64_t simba__member_token(const simba__member *member);
int simba__member_lease(const simba__member *member, simba_lease *ret_lease);

/* Not in a turn. */
/* The owner that its machine knows. SIMBA_ECLOSED, SIMBA_EFORKED. */
int simba__member_owner(simba__member *member, simba_owner *ret_owner);
int64_t simba__member_owner_left_ms(simba__member *member);
int simba__member_grant(simba__member *member, simba_grant *ret_grant);
simba_status simba__member_status(const simba__member *member);

#endif
