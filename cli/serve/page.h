/* The files of cli/page, inside the program. */
#ifndef SIMBA_CLI_SERVE_PAGE_H
#define SIMBA_CLI_SERVE_PAGE_H

typedef struct page_file {
    const char *path;
    const char *type;
    const unsigned char *start, *end;
} page_file;

/* NULL: there is no such file. */
const page_file *page_find(const char *path);

#endif
