/* What clients and the register of the torture tests say to each other: one question and one answer per packet of a
 * SOCK_SEQPACKET unix socket. That socket is a file, so it is reached from every network namespace, past the tortured network. */
#ifndef TORTURE_REGISTER_H
#define TORTURE_REGISTER_H

#include <stdint.h>

typedef enum register_verb { REGISTER_READ, REGISTER_WRITE } register_verb;

typedef struct register_question {
    uint64_t token;
    uint64_t value; /* to write */
    uint32_t verb;
    uint32_t unused;
} register_question;

typedef struct register_answer {
    uint64_t value;      /* that is there now */
    uint32_t is_refused; /* the token is lower than the highest one that was seen */
    uint32_t unused;
} register_answer;

#endif
