/* See books.h. */
#include "backends/mysql/books.h"

#include <string.h>

#include "util/clock.h"
#include "util/hash.h"
#include "util/mem.h"

enum { PAGES_MAX = 1 << 16 };

struct simba__my_page {
    simba__my_page *next;          /* in its bucket */
    simba__my_page *newer, *older; /* by when it was last noted */
    uint64_t hash;                 /* of the name: two that share it are taken for one, and lose nothing by that */
    uint64_t version;              /* the greatest seen */
    uint64_t nonce;                /* of a grant of ours */
    simba_local until;             /* when that ends by our own clock; {0}: there is none */
    unsigned lane;                 /* that works on it; 0: none */
    unsigned tasks;                /* how many it has */
};

void simba__my_books_fini(simba__my_books *books)
{
    for (simba__my_page *page = books->newest, *older; page; page = older) {
        older = page->older;
        simba__free(page);
    }
    simba__free(books->buckets);
}

static simba__my_page **link_of(const simba__my_books *books, uint64_t hash)
{
    simba__my_page **link = &books->buckets[hash & (books->capacity - 1)];
    while (*link && (*link)->hash != hash)
        link = &(*link)->next;
    return link;
}

static simba__my_page *find(const simba__my_books *books, const char *mutex)
{
    return books->capacity ? *link_of(books, simba__hash(mutex)) : NULL;
}

uint64_t simba__my_books_floor(const simba__my_books *books, const char *mutex)
{
    const simba__my_page *page = find(books, mutex);
    return page ? page->version : 0;
}

bool simba__my_books_held(const simba__my_books *books, const char *mutex, uint64_t nonce, simba_local now)
{
    const simba__my_page *page = find(books, mutex);
    return page && page->nonce != nonce && now.ns < page->until.ns;
}

uint64_t simba__my_books_holder(const simba__my_books *books, const char *mutex)
{
    const simba__my_page *page = find(books, mutex);
    return page ? page->nonce : 0;
}

/* --- pages ---------------------------------------------------------------------------------------------- */

static void take_out(simba__my_books *books, simba__my_page *page)
{
    *(page->newer ? &page->newer->older : &books->newest) = page->older;
    *(page->older ? &page->older->newer : &books->oldest) = page->newer;
}

static void put_first(simba__my_books *books, simba__my_page *page)
{
    page->newer = NULL;
    page->older = books->newest;
    *(books->newest ? &books->newest->newer : &books->oldest) = page;
    books->newest = page;
}

static bool grow(simba__my_books *books)
{
    simba__my_books grown = *books;
    grown.capacity = books->capacity ? books->capacity * 2 : 16;
    grown.buckets = simba__calloc(grown.capacity, sizeof(void *));
    if (!grown.buckets)
        return false;
    for (simba__my_page *page = books->newest; page; page = page->older) {
        simba__my_page **link = link_of(&grown, page->hash);
        page->next = NULL;
        *link = page;
    }
    simba__free(books->buckets);
    *books = grown;
    return true;
}

static void forget_oldest(simba__my_books *books, simba_local now)
{
    simba__my_page *page = books->oldest;
    if (books->count < PAGES_MAX || page->until.ns > now.ns || page->tasks > 0)
        return;
    *link_of(books, page->hash) = page->next;
    take_out(books, page);
    books->count--;
    simba__free(page);
}

static simba__my_page *add(simba__my_books *books, uint64_t hash, simba_local now)
{
    if (books->count >= books->capacity && books->capacity < PAGES_MAX && !grow(books))
        return NULL;
    forget_oldest(books, now);
    simba__my_page *page = simba__calloc(1, sizeof *page);
    if (!page)
        return NULL;
    page->hash = hash;
    *link_of(books, hash) = page;
    put_first(books, page);
    books->count++;
    return page;
}

static simba__my_page *open_page(simba__my_books *books, const char *mutex, simba_local now)
{
    simba__my_page *page = find(books, mutex);
    if (!page)
        return add(books, simba__hash(mutex), now);
    take_out(books, page);
    put_first(books, page);
    return page;
}

/* --- entries -------------------------------------------------------------------------------------------- */

bool simba__my_books_begin(simba__my_books *books, const char *mutex, unsigned lane, simba_local now)
{
    simba__my_page *page = open_page(books, mutex, now);
    if (!page)
        return true; /* without memory they may have to wait for each other */
    if (page->tasks > 0 && page->lane != lane)
        return false;
    page->lane = lane;
    page->tasks++;
    return true;
}

void simba__my_books_finish(simba__my_books *books, const char *mutex, unsigned lane)
{
    simba__my_page *page = find(books, mutex);
    if (page && page->tasks > 0 && page->lane == lane)
        page->tasks--;
}

void simba__my_books_see(simba__my_books *books, const char *mutex, uint64_t version, simba_local now)
{
    simba__my_page *page = open_page(books, mutex, now);
    if (page && version > page->version)
        page->version = version;
}

void simba__my_books_note(simba__my_books *books, const simba_request *answered, simba_local since)
{
    simba__my_page *page = find(books, answered->mutex);
    if (!page)
        return;
    const bool holds = answered->op == SIMBA_OP_ACQUIRE || answered->op == SIMBA_OP_RENEW;
    if (holds && answered->reply.outcome == SIMBA_MINE) {
        page->nonce = answered->nonce;
        page->until.ns = since.ns + (answered->ttl_ms + answered->transition_ms) * SIMBA__NS_PER_MS;
    } else if (answered->op == SIMBA_OP_FORCE_RELEASE || answered->nonce == page->nonce) {
        page->until = (simba_local){0};
    }
}

void simba__my_books_let_go(simba__my_books *books, const char *mutex, uint64_t nonce)
{
    simba__my_page *page = find(books, mutex);
    if (page && page->nonce == nonce)
        page->until = (simba_local){0};
}
