/* See line.h. A cell has 31 bits of the mutex's hash, one for `observed`, and 32 for the time. */
#include "backends/sqlite/line.h"

#define OBSERVED (UINT64_C(1) << 32)
#define SEVERAL UINT64_C(0) /* in place of the hash's bits */

/* The number of the line comes from other bits of the hash. */
static uint64_t tag_of(uint64_t hash)
{
    const uint64_t tag = hash >> 33;
    return tag == SEVERAL ? 1 : tag;
}

uint64_t simba__sqlite_line_cell(uint64_t hash, bool observed, uint32_t since_ms)
{
    return tag_of(hash) << 33 | (observed ? OBSERVED : 0) | since_ms;
}

uint64_t simba__sqlite_line_cell_of_several(void)
{
    return SEVERAL << 33 | OBSERVED;
}

bool simba__sqlite_line_observes(uint64_t cell, uint64_t hash)
{
    const uint64_t tag = cell >> 33;
    return (cell & OBSERVED) && (tag == SEVERAL || tag == tag_of(hash));
}

static bool waits_for(uint64_t cell, uint64_t hash)
{
    return cell >> 33 == tag_of(hash) && !(cell & OBSERVED);
}

/* Another process may have read the clock after us. */
static uint32_t age_of(uint64_t cell, uint32_t now_ms)
{
    const uint32_t age = now_ms - (uint32_t)cell;
    return age > INT32_MAX ? 0 : age;
}

int simba__sqlite_line_first(const simba__sqlite_line *line, uint64_t hash, uint32_t now_ms)
{
    int first = -1;
    for (int i = 0; i < SIMBA__SQLITE_BELLS; i++)
        if (waits_for(line->cells[i], hash) &&
            (first < 0 || age_of(line->cells[i], now_ms) > age_of(line->cells[first], now_ms)))
            first = i;
    return first;
}
