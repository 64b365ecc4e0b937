/* See guess.h. */
#include "util/guess.h"

#include <string.h>

enum { LONGEST = 40, FAR = 1000 };

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* How many characters must be added, left out, replaced or swapped with their neighbour to turn one into the other:
 * the restricted distance of Damerau and Levenshtein. Row i has the distances of the first i characters of `a`. */
static unsigned distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    unsigned rows[3][LONGEST + 1];
    if (a_length > LONGEST || b_length > LONGEST)
        return FAR;
    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= a_length; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *above = rows[(i + 2) % 3];
        const unsigned *two_above = rows[(i + 1) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_length; j++) {
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], two_above[j - 2] + 1);
        }
    }
    return rows[a_length % 3][b_length];
}

void simba__guess_offer(simba__guess *guess, const char *given, size_t length, const char *name)
{
    const size_t name_length = strlen(name);
    const size_t allowed = (length + 1) / 3;
    const int begins = length >= 3 && length < name_length && strncmp(given, name, length) == 0;
    const unsigned d = begins ? 1 : distance(given, length, name, name_length);
    if (d > allowed || (guess->name != NULL && d >= guess->distance))
        return;
    guess->name = name;
    guess->distance = d;
}
