/* Mutexes and incarnations as names of ZooKeeper's nodes. */
#ifndef SIMBA_BACKENDS_ZOOKEEPER_NAMES_H
#define SIMBA_BACKENDS_ZOOKEEPER_NAMES_H

#include <simba/backend.h>

/* Can ZooKeeper have a node of this name, which is valid by simba's own rules? SIMBA_EINVAL says why not. */
int simba__zk_check_mutex(const char *mutex, simba_error *err);
/* Is this child of a mutex's node a contender? Others are parts of the names of other mutexes. */
bool simba__zk_is_contender(const char *child);
/* PATH/CHILD; ROOT/MUTEX is the node of a mutex. Free it; NULL: out of memory. */
char *simba__zk_child_path(const char *path, const char *child);

/* The name of the node that keeps the note of a mutex: the name of the mutex, with %2F for a slash and %25 for a percent sign.
 * Free it; NULL: out of memory. */
char *simba__zk_note_name(const char *mutex);
/* The mutex whose note has this name. False: it is not the name of a note. */
bool simba__zk_mutex_of_note(const char *name, char ret_mutex[SIMBA_MUTEX_BYTES + 1]);

enum { ZK_PREFIX_MAX = 48 };
/* The beginning of the name of an incarnation's child: "_c_{uuid}-latch-". */
void simba__zk_prefix(uint64_t nonce, const char *id, char ret_prefix[ZK_PREFIX_MAX]);
/* The nonce of an incarnation after so many sessions of its client are over. A child of an earlier session may still
 * be there until the server ends that session: nobody may take it for a child of this session. */
uint64_t simba__zk_salted(uint64_t nonce, unsigned sessions_over);
/* The nonce, without salt, of the incarnation that may have made this child. False: another library has made it. */
bool simba__zk_nonce_of(const char *child, unsigned sessions_over, uint64_t *ret_nonce);
/* Did a contender of this library make this child, whose data is `id`? */
bool simba__zk_is_made_by_us(const char *child, const char *id);
/* The first of the contenders among these children; NULL: there is none. And how many there are, unless that is NULL. */
const char *simba__zk_first(char *const *children, size_t count, size_t *ret_contenders);
/* The contender among these children that comes right after this one; NULL: there is none. */
const char *simba__zk_after(char *const *children, size_t count, const char *child);
/* A time that a server has told, in ms since 1970; at least 0, and at most the end of the year 9999, so that nothing overflows that is
 * computed from it. */
int64_t simba__zk_time_ms(int64_t told_ms);
/* The maker of a child, as the owner of the mutex. */
simba_owner simba__zk_owner(const char *id, int64_t czxid, int64_t ctime_ms);
/* Which of two children comes first? Like strcmp. */
int simba__zk_order(const char *a, const char *b);

#endif
