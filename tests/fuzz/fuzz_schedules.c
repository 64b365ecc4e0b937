/* Cron expressions, and files of time zones. */
#include <string.h>

#include "core/cron.h"
#include "core/zone.h"
#include "fuzz/targets.h"

/* --- zones ---------------------------------------------------------------------------------------------------------- */

static const int64_t year_s = 365 * 86400;

/* The stretches around any moment follow each other without a gap. */
static void check_stretches(const simba__zone *zone, int64_t at_s)
{
    simba__zone_stretch now = simba__zone_stretch_at(zone, at_s);
    FUZZ_CHECK(now.begin_s <= at_s && at_s < now.end_s);
    for (int i = 0; i < 4 && now.end_s < 300 * year_s && now.end_s > -300 * year_s; i++) {
        const simba__zone_stretch next = simba__zone_stretch_at(zone, now.end_s);
        FUZZ_CHECK(next.begin_s == now.end_s && next.end_s > next.begin_s);
        FUZZ_CHECK(next.offset_before_s == now.offset_s);
        now = next;
    }
}

void fuzz_zone(const uint8_t *data, size_t size)
{
    simba_error err = {0};
    simba__zone zone;
    const int rc = simba__zone_read(data, size, &err, &zone);
    if (rc < 0) {
        FUZZ_CHECK(rc == err.code && fuzz_is_shown_safely(err.text));
        return;
    }
    static const int64_t moments[] = {0, 1700000000, -2000000000, 4102444800, INT64_C(100000000000)};
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++)
        check_stretches(&zone, moments[i]);
}

/* --- cron ----------------------------------------------------------------------------------------------------------- */

/* The first bytes choose a moment, the others are the expression; times are those of UTC. */
void fuzz_cron(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    int64_t at_s = (int64_t)(fuzz_number(&in) % (200 * year_s));
    char *text = fuzz_string(in.at, in.left);
    simba_error err = {0};
    simba__cron cron;
    const simba__zone utc = {0};
    if (simba__cron_parse(text, &err, &cron) < 0) {
        FUZZ_CHECK(err.code < 0 && fuzz_is_shown_safely(err.text));
    } else {
        for (int i = 0; i < 4; i++) {
            const int64_t next_s = simba__cron_next(&cron, &utc, at_s);
            FUZZ_CHECK(next_s > at_s);
            if (next_s == INT64_MAX)
                break;
            FUZZ_CHECK(simba__cron_next(&cron, &utc, next_s - 1) == next_s); /* nothing was passed over */
            at_s = next_s;
        }
    }
    free(text);
}
