/* A party that contends: the machine of core/contention.h, carried out. Contenders, lockers and schedulers differ only
 * in what they do when they are told. */
#ifndef SIMBA_RUNTIME_MEMBER_H
#define SIMBA_RUNTIME_MEMBER_H

#include "runtime/narrator.h"
#include "runtime/party.h"

typedef struct simba__member simba__member;

typedef struct simba__member_type {
    simba__party_type party; /* first */
    /* In a turn: acquired, released, changed and done are for it. It sends ACK when on_released has returned. */
    void (*told)(simba__member *member, const simba__actions *actions);
    bool acks_at_once; /* nobody has to be waited for */
} simba__member_type;

struct simba__member {
    simba__party party;        /* first */
    simba__contention machine; /* its timing is the client's, or the member's own */
    char *id;
    simba_local owner_until; /* when the lease of the owner that the machine knows of ends, unless it is renewed */
    simba_local waits_since; /* while it looks for leadership, for the statistics */
    /* For reading without the lock. Where leases are sessions, whose end moves without us, INT64_MAX stands for that. */
    _Atomic int64_t valid_until_ns;
    _Atomic int64_t ttl_until_ns;
    _Atomic int64_t lease_until_ns; /* with the stop margin */
    _Atomic uint64_t token;
    simba__said said;
    uint64_t note_number;         /* of the latest write of the note, see notes.h */
    _Atomic uint64_t plain_token; /* under this grant the note is known to have no record, see worknote.h */
    bool writes_note;             /* one is under way */
    bool hears_notes;             /* wants to be told of the note's changes for as long as it runs */
};

/* Checks everything, makes the id, and adds the member to the client. Not in a turn. After a failure nothing of the
 * member's own is left, and its memory is the caller's. */
int simba__member_init(simba__member *member, const simba__member_type *type, simba_client *client, const char *mutex,
                       const char *id, const simba_timing *timing, simba_error *err);
/* What init made; for the type's destroy. */
void simba__member_fini(simba__member *member);

/* In a turn. */
void simba__member_step(simba__party *party, simba__event *event);
void simba__member_start(simba__member *member, simba_local give_up);
void simba__member_ack(simba__member *member);
/* Where leases are sessions: say that this one was not renewed for long, or was after all. */
void simba__member_say_lease(simba__member *member, bool renewed);
/* Before the application is called: a process that did not run for a while may have lost meanwhile what it is about to be
 * told that it has, and whoever is first to go on finds out. */
void simba__member_look(simba__member *member);

/* Around a callback: a line of the event log. Any thread. */
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
int64_t simba__member_owner_left_ms(simba__member *member);
int simba__member_grant(simba__member *member, simba_grant *ret_grant);
simba_status simba__member_status(const simba__member *member);

#endif
