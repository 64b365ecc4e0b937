/* The answers of `simba serve` as text: JSON as docs/openapi.json describes it, and metrics. */
#ifndef SIMBA_CLI_SERVE_ANSWERS_H
#define SIMBA_CLI_SERVE_ANSWERS_H

#include <stdio.h>

#include "table.h"

/* The data of the answers. */
typedef struct answers {
    const table *t;
    simba_client *client;
    char instance[20]; /* revisions of another process mean nothing to this one */
    bool can_release;
    unsigned connections, streams;
} answers;

/* "{instance}-{revision}" */
enum { ANSWER_REVISION_SIZE = 48 };
const char *answer_revision(const answers *a, uint64_t revision, char ret_text[ANSWER_REVISION_SIZE]);
/* Read one. False: it is none, or of another process. */
bool answers_parse_revision(const answers *a, const char *text, uint64_t *ret_revision);

/* `{"url":…}`: the store, and whether it answers. */
void answer_store(FILE *to, const answers *a);
void answer_row(FILE *to, const answers *a, const table_row *row);
void answer_change(FILE *to, const answers *a, const table_change *change);
/* `{"revision":…,"store":{…},"mutexes":[`, and what comes behind the rows. */
void answer_list_begin(FILE *to, const answers *a);
void answer_list_end(FILE *to, const answers *a);
/* One mutex, with its history. */
void answer_mutex(FILE *to, const answers *a, const table_row *row);
void answer_metrics(FILE *to, const answers *a);

#endif
