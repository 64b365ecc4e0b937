/* Names that many share: strings that count who has them. A contender's own id is one, and so is the id of an owner that the
 * contenders of a client have heard of: a process that holds a million mutexes has each of their ids once. Any thread may call these
 * for a name that it has. */
#ifndef SIMBA_UTIL_NAME_H
#define SIMBA_UTIL_NAME_H

/* A copy of the text; the caller has it. NULL: out of memory. */
const char *simba__name_make(const char *text);
/* A name for an owner whose name there was no memory for. The caller has it. */
const char *simba__name_unknown(void);
/* One more has it. Returns the name. NULL stays NULL, here and below. */
const char *simba__name_take(const char *name);
/* One who had it has it no longer. */
void simba__name_drop(const char *name);
/* What had the name `before` has the name `now`. */
static inline void simba__name_replace(const char *before, const char *now)
{
    if (before == now)
        return;
    simba__name_take(now);
    simba__name_drop(before);
}

#endif
