/* Every target: a line here, and a function fuzz_NAME in a file of this folder. */
#ifndef SIMBA_TESTS_FUZZ_TARGETS_H
#define SIMBA_TESTS_FUZZ_TARGETS_H

#include "fuzz/fuzz.h"

/* Where there are schedules by cron expressions. */
#if FUZZ_SCHEDULES
#define FUZZ_SCHEDULE_TARGETS                                                                                          \
    TARGET(cron) /* cron expressions */                                                                                \
    TARGET(zone) /* files of time zones */
#else
#define FUZZ_SCHEDULE_TARGETS
#endif

#define FUZZ_TARGETS                                                                                                   \
    TARGET(url)          /* URLs of stores, and what each store makes of them */                                       \
    TARGET(duration)     /* "10s", "1.5m" */                                                                           \
    TARGET(names)        /* of mutexes and contenders, and how they are shown */                                       \
    TARGET(config)       /* simba.conf */                                                                              \
    TARGET(command_line) /* options of the command */                                                                  \
    TARGET(event_log)    /* what `simba timeline` reads, and draws */                                                  \
    TARGET(contention)   /* any sequence of events */                                                                  \
    TARGET(sql_row)      /* columns as SQL servers send them */                                                        \
    TARGET(sqlite_file)  /* a database file */                                                                         \
    TARGET(sqlite_row)   /* any values in our table */                                                                 \
    TARGET(redis_reply)  /* RESP, and what the scripts answer */                                                       \
    TARGET(redis)        /* a whole store, to which hostile servers talk */                                            \
    TARGET(postgresql)   /* likewise, over libpq */                                                                    \
    TARGET(mysql)        /* likewise, over libmariadb */                                                               \
    TARGET(zookeeper)    /* likewise */                                                                                \
    TARGET(zk_message)   /* messages of ZooKeeper servers */                                                           \
    TARGET(zk_note)      /* notes, and the names of their nodes */                                                     \
    TARGET(http_answer)  /* of any server that speaks HTTP */                                                          \
    TARGET(json)         /* in such answers */                                                                         \
    TARGET(etcd_answer)  /* of etcd */                                                                                 \
    TARGET(etcd_note)    /* notes in etcd */                                                                           \
    TARGET(kube_lease)   /* of Kubernetes */                                                                           \
    FUZZ_SCHEDULE_TARGETS

#define TARGET(name) void fuzz_##name(const uint8_t *data, size_t size);
FUZZ_TARGETS
#undef TARGET

#endif
