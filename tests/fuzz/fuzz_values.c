/* Small values that people type: URLs, durations, names. */
#include <simba/backend.h>
#include <stdio.h>
#include <string.h>

#include "fuzz/targets.h"
#include "stores/redis/redis.h"
#include "stores/zookeeper/zookeeper.h"
#include "util/escape.h"
#include "util/text.h"

/* --- url ------------------------------------------------------------------------------------------------ */

static void parse_options(const simba_url *url)
{
    simba_error err = {0};
    redis_options redis = {0};
    if (simba__redis_options_parse(url, &redis, &err) < 0)
        FUZZ_CHECK(err.code < 0 && fuzz_is_shown_safely(err.text));
    simba__redis_options_free(&redis);
    zk_options zookeeper = {0};
    if (simba__zk_options_parse(url, &zookeeper, &err) < 0)
        FUZZ_CHECK(err.code < 0 && fuzz_is_shown_safely(err.text));
    simba__zk_options_free(&zookeeper);
}

/* Where the URL has its password as it stands, what is shown of the URL does not. */
static void check_secret(const simba_url *url, const char *text)
{
    const char *password = simba_url_password(url);
    char *secret = malloc(strlen(text) + 3);
    FUZZ_CHECK(secret);
    if (password && strlen(password) <= strlen(text) && strcmp(password, "***") != 0) {
        sprintf(secret, ":%s@", password);
        const char *first = strstr(text, secret);
        FUZZ_CHECK(!first || strstr(first + 1, secret) || !strstr(simba_url_shown(url), secret));
    }
    free(secret);
}

void fuzz_url(const uint8_t *data, size_t size)
{
    char *text = fuzz_string(data, size);
    simba_error err = {0};
    simba_url *url = NULL;
    const int rc = simba_url_parse(text, &err, &url);
    FUZZ_CHECK((rc == 0) == (url != NULL));
    if (rc < 0) {
        FUZZ_CHECK(rc == err.code && fuzz_is_shown_safely(err.text));
    } else {
        FUZZ_CHECK(simba_url_scheme(url)[0] != '\0' && simba_url_authority(url) && simba_url_path(url));
        check_secret(url, text);
        parse_options(url);
    }
    simba_url_free(url);
    free(text);
}

/* --- duration ------------------------------------------------------------------------------------------- */

void fuzz_duration(const uint8_t *data, size_t size)
{
    char *text = fuzz_string(data, size);
    int64_t ms = -7;
    if (simba_duration_parse(text, &ms) == 0)
        FUZZ_CHECK(ms >= 0);
    else
        FUZZ_CHECK(ms == -7);
    free(text);
}

/* --- names ---------------------------------------------------------------------------------------------- */

static void check_escaped(const char *text, size_t room)
{
    char *once = malloc(room);
    char *twice = malloc(room);
    FUZZ_CHECK(once && twice);
    simba__escape(text, once, room);
    FUZZ_CHECK(strlen(once) < room && fuzz_is_shown_safely(once));
    FUZZ_CHECK(strcmp(simba__escape(once, twice, room), once) == 0);
    free(once);
    free(twice);
}

void fuzz_names(const uint8_t *data, size_t size)
{
    char *text = fuzz_string(data, size);
    char quoted[64];
    simba_error err = {0};
    if (simba__check_mutex(text, &err) == 0)
        FUZZ_CHECK(text[0] && strlen(text) <= SIMBA_MUTEX_BYTES);
    else
        FUZZ_CHECK(fuzz_is_shown_safely(err.text));
    if (simba__check_id(text, &err) == 0)
        FUZZ_CHECK(text[0] && strlen(text) <= SIMBA_ID_MAX);
    else
        FUZZ_CHECK(fuzz_is_shown_safely(err.text));
    check_escaped(text, SIMBA__ESCAPED_SIZE(strlen(text)) + 8);
    check_escaped(text, 8 + size % 32);
    FUZZ_CHECK(fuzz_is_shown_safely(simba__quote(text, quoted, 12 + size % 52)));
    FUZZ_CHECK((size_t)simba__text_cut(text, size % 16) <= size % 16);
    free(text);
}
