/* A tiny language for tests of the contention machine: feed it an event, and it returns the resulting actions as one
 * line of text. A test then reads as a trace of what must happen. */
#ifndef TESTS_LIB_TRACE_H
#define TESTS_LIB_TRACE_H

#include "core/contention.h"

typedef struct trace {
    simba__timing timing;
    simba__contention machine;
    int64_t now_ms;           /* since the machine was made */
    int64_t session_until_ms; /* on the same scale; at first without an end */
    int64_t sent_ms;          /* of requests: when they were handed to the store; 0: at once */
    simba__actions actions;
    char text[256];
} trace;

/* ttl and transition in ms; drift bound 1 %, no jitter unless given, requests time out after 4 s. */
void trace_init(trace *t, int64_t ttl_ms, int64_t transition_ms);
void trace_init_with(trace *t, const simba_timing *ms, bool session, bool queue);

/* Each returns the actions as text: "acquired", "released(reason)", "changed", "acquire", "renew", "release", "withdraw",
 * "done", "late", and "wake@…" with the time in ms at which the timer is set ("wake@never" is left out), joined by blanks. */
const char *trace_start(trace *t);
const char *trace_stop(trace *t);
const char *trace_ack(trace *t);
/* Move the clock to `at_ms` and let the timer fire. */
const char *trace_at(trace *t, int64_t at_ms);
/* Move the clock only. */
void trace_pass(trace *t, int64_t at_ms);

/* Replies to the request in flight. */
const char *trace_mine(trace *t, uint64_t token);
const char *trace_owned(trace *t, const char *by, uint64_t token, int64_t left_ms);
/* The same from a store that knows our place in the queue. */
const char *trace_owned_and_queued(trace *t, const char *by, uint64_t token, int64_t left_ms, int64_t place);
const char *trace_nobody(trace *t);
const char *trace_revoked(trace *t);
const char *trace_fails(trace *t, int code);
/* The store has never got the request. */
const char *trace_not_sent(trace *t, int code);
/* A reply to an older request. */
const char *trace_stale_mine(trace *t, uint64_t token);

const char *trace_push(trace *t, simba_push_kind kind);
const char *trace_push_acquired(trace *t, const char *by, uint64_t token, int64_t left_ms);

/* For how long the holder may act, in ms, rounded down; 0: not at all. */
int64_t trace_held_ms(const trace *t);

#endif
