/* See url.h. Parsed by hand: no URL library is among the dependencies, and none would know host lists. */
#include "util/url.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "util/error.h"
#include "util/guess.h"
#include "util/mem.h"
#include "util/text.h"

enum { MAX_QUERY = 32, MAX_URL = 4096 };

struct simba_url {
    char *scheme;
    char *user;
    char *password;
    char *authority;
    char *path;
    char *shown;
    size_t queries;
    struct {
        char *key;
        char *value;
    } query[MAX_QUERY];
};

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decode [text, end) into a new string. NULL and *ret_rc on failure. */
static char *decode(const char *text, const char *end, int *ret_rc)
{
    char *out = simba__malloc((size_t)(end - text) + 1);
    if (!out) {
        *ret_rc = SIMBA_ENOMEM;
        return NULL;
    }
    size_t length = 0;
    for (; text < end; text++) {
        int c = (unsigned char)*text;
        if (c == '%') {
            const int high = end - text > 2 ? hex_digit(text[1]) : -1;
            const int low = high >= 0 ? hex_digit(text[2]) : -1;
            c = low >= 0 ? high * 16 + low : 0;
            text += 2;
        }
        if (c == 0) { /* a broken escape, or %00, which no C string can carry */
            simba__free(out);
            *ret_rc = SIMBA_EURL;
            return NULL;
        }
        out[length++] = (char)c;
    }
    out[length] = '\0';
    return out;
}

static int part(const char *what, const char *text, const char *end, char **ret_out, simba_error *err)
{
    int rc = 0;
    char *out = decode(text, end, &rc);
    if (!out)
        return rc == SIMBA_ENOMEM ? simba__fail(err, rc, "out of memory")
                                  : simba__fail(err, rc, "the %s of the URL has a broken %%-escape", what);
    *ret_out = out;
    return 0;
}

static int parse_query(simba_url *url, const char *text, simba_error *err)
{
    while (*text) {
        const char *end = text + strcspn(text, "&");
        const char *equals = memchr(text, '=', (size_t)(end - text));
        if (!equals || equals == text)
            return simba__fail(err, SIMBA_EURL, "\"%.*s\" in the URL is not of the form key=value", (int)(end - text),
                               text);
        if (url->queries == MAX_QUERY)
            return simba__fail(err, SIMBA_EURL, "the URL has more than %d settings", MAX_QUERY);
        int rc = part("query", text, equals, &url->query[url->queries].key, err);
        if (rc < 0)
            return rc;
        const char *key = url->query[url->queries++].key;
        rc = part("query", equals + 1, end, &url->query[url->queries - 1].value, err);
        if (rc < 0)
            return rc;
        for (size_t i = 0; i + 1 < url->queries; i++)
            if (strcmp(url->query[i].key, key) == 0)
                return simba__fail(err, SIMBA_EURL, "\"%s\" stands twice in the URL", key);
        text = *end ? end + 1 : end;
    }
    return 0;
}

static int parse_authority(simba_url *url, const char *text, const char *end, simba_error *err)
{
    const char *at = NULL;
    for (const char *c = text; c < end; c++)
        if (*c == '@')
            at = c;
    if (at) {
        const char *colon = memchr(text, ':', (size_t)(at - text));
        int rc = part("user", text, colon ? colon : at, &url->user, err);
        if (rc == 0 && colon)
            rc = part("password", colon + 1, at, &url->password, err);
        if (rc < 0)
            return rc;
        text = at + 1;
    }
    return part("host", text, end, &url->authority, err);
}

/* The text with the password replaced, for logs and messages. */
static char *redact(const char *text, const char *authority, const char *authority_end)
{
    const char *at = NULL;
    for (const char *c = authority; c < authority_end; c++)
        if (*c == '@')
            at = c;
    const char *colon = at ? memchr(authority, ':', (size_t)(at - authority)) : NULL;
    if (!colon)
        return simba__strdup(text);
    const size_t size = strlen(text) + sizeof ":***";
    char *shown = simba__malloc(size);
    if (shown)
        snprintf(shown, size, "%.*s:***%s", (int)(colon - text), text, at);
    return shown;
}

static int parse(simba_url *url, const char *text, simba_error *err)
{
    const char *colon = strstr(text, "://");
    if (!colon || colon == text)
        return simba__fail(err, SIMBA_EURL, "a store URL begins with a scheme and \"://\", such as sqlite:///path");
    for (const char *c = text; c < colon; c++)
        if (!isalnum((unsigned char)*c) && !strchr("+-.", *c))
            return simba__fail(err, SIMBA_EURL,
                               "the scheme of the URL has something else than letters, digits, \"+\", \"-\" and \".\"");
    if (strlen(text) > MAX_URL)
        return simba__fail(err, SIMBA_EURL, "the URL is longer than %d bytes", MAX_URL);

    const char *authority = colon + 3;
    const char *path = authority + strcspn(authority, "/?");
    const char *question = path + strcspn(path, "?");
    /* A password with a "/" or "?" in it ends in text that looks like the path or the settings, which are shown.
     * Nobody can tell whether an "@" there is innocent. */
    const char *late_at = strrchr(path, '@');
    if (late_at && memchr(authority, ':', (size_t)(late_at - authority)))
        return simba__fail(err, SIMBA_EURL,
                           "the URL has a \"@\" behind the host: write it as %%40 there, and a \"/\" or \"?\" of a "
                           "password as %%2F or %%3F");
    int rc = part("scheme", text, colon, &url->scheme, err);
    if (rc == 0)
        rc = parse_authority(url, authority, path, err);
    if (rc == 0)
        rc = part("path", path, question, &url->path, err);
    if (rc == 0 && *question)
        rc = parse_query(url, question + 1, err);
    if (rc < 0)
        return rc;
    url->shown = redact(text, authority, path);
    return url->shown ? 0 : simba__fail(err, SIMBA_ENOMEM, "out of memory");
}

int simba_url_parse(const char *text, simba_error *err, simba_url **ret_url)
{
    if (!text || !*text)
        return simba__fail(err, SIMBA_EURL, "the store URL is %s", text ? "empty" : "NULL");
    simba_url *url = simba__calloc(1, sizeof *url);
    if (!url)
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    const int rc = parse(url, text, err);
    if (rc < 0) {
        simba_url_free(url);
        return rc;
    }
    *ret_url = url;
    return 0;
}

void simba_url_free(simba_url *url)
{
    if (!url)
        return;
    simba__free(url->scheme);
    simba__free(url->user);
    if (url->password)
        explicit_bzero(url->password, strlen(url->password));
    simba__free(url->password);
    simba__free(url->authority);
    simba__free(url->path);
    simba__free(url->shown);
    for (size_t i = 0; i < url->queries; i++) {
        simba__free(url->query[i].key);
        simba__free(url->query[i].value);
    }
    simba__free(url);
}

const char *simba_url_scheme(const simba_url *url)
{
    return url->scheme;
}

const char *simba_url_user(const simba_url *url)
{
    return url->user;
}

const char *simba_url_password(const simba_url *url)
{
    return url->password;
}

const char *simba_url_authority(const simba_url *url)
{
    return url->authority;
}

const char *simba_url_path(const simba_url *url)
{
    return url->path;
}

const char *simba_url_shown(const simba_url *url)
{
    return url->shown;
}

const char *simba_url_query(const simba_url *url, const char *key)
{
    for (size_t i = 0; i < url->queries; i++)
        if (strcmp(url->query[i].key, key) == 0)
            return url->query[i].value;
    return NULL;
}

static bool listed(const char *const *list, const char *key)
{
    for (; list && *list; list++)
        if (strcmp(*list, key) == 0)
            return true;
    return false;
}

/* The names that fit, whole; false: there are more. */
static bool join_keys(const char *const *const lists[2], char *known, size_t size)
{
    size_t length = 0;
    known[0] = '\0';
    for (size_t l = 0; l < 2; l++)
        for (const char *const *key = lists[l]; key && *key; key++) {
            if (length + strlen(*key) + sizeof ", " > size)
                return false;
            length += (size_t)snprintf(known + length, size - length, "%s%s", length ? ", " : "", *key);
        }
    return true;
}

int simba__url_check_keys(const simba_url *url, const char *const *common, const char *const *own, simba_error *err)
{
    const char *const *lists[] = {common, own};
    for (size_t i = 0; i < url->queries; i++) {
        const char *given = url->query[i].key;
        simba__guess meant = {0};
        char known[120]; /* with the rest of the message, what an error has room for */
        if (listed(common, given) || listed(own, given))
            continue;
        for (size_t l = 0; l < 2; l++)
            for (const char *const *key = lists[l]; key && *key; key++)
                simba__guess_offer(&meant, given, strlen(given), *key);
        const int shown = simba__text_cut(given, 40);
        if (meant.name)
            return simba__fail(err, SIMBA_EURL, "%s:// does not know the setting \"%.*s\" (did you mean \"%s\"?)",
                               url->scheme, shown, given, meant.name);
        const bool all = join_keys(lists, known, sizeof known);
        return simba__fail(err, SIMBA_EURL, "%s:// does not know the setting \"%.*s\"; it knows %s%s", url->scheme,
                           shown, given, known, all ? "" : " and those in simba-url(5)");
    }
    return 0;
}

int simba__url_duration(const simba_url *url, const char *key, int64_t *ret_ms, simba_error *err)
{
    const char *value = simba_url_query(url, key);
    if (!value || simba_duration_parse(value, ret_ms) == 0)
        return 0;
    return simba__fail(err, SIMBA_EURL, "\"%s=%.*s\" in the URL is not a duration such as 500ms, 10s, 2m or 1h", key,
                       simba__text_cut(value, 40), value);
}

int simba__url_timeout(const simba_url *url, const char *key, unsigned *ret_ms, simba_error *err)
{
    int64_t ms = *ret_ms;
    const int rc = simba__url_duration(url, key, &ms, err);
    if (rc < 0)
        return rc;
    if (ms < 1 || ms > 3600000)
        return simba__fail(err, SIMBA_EURL, "%s in the URL is from 1ms to 1h", key);
    *ret_ms = (unsigned)ms;
    return 0;
}

int simba__url_flag(const simba_url *url, const char *key, bool *ret_flag, simba_error *err)
{
    const char *value = simba_url_query(url, key);
    if (!value)
        return 0;
    const bool flag = strcmp(value, "yes") == 0;
    if (!flag && strcmp(value, "no") != 0)
        return simba__fail(err, SIMBA_EURL, "%s is yes or no, and the URL says \"%.*s\"", key,
                           simba__text_cut(value, 40), value);
    *ret_flag = flag;
    return 0;
}

bool simba__url_of_path(const char *scheme, const char *path, char *out, size_t size)
{
    size_t length = (size_t)snprintf(out, size, "%s://", scheme);
    for (; *path && length < size; path++) {
        const unsigned char c = (unsigned char)*path;
        const bool plain = isalnum(c) || strchr("/-._~", c);
        length += (size_t)snprintf(out + length, size - length, plain ? "%c" : "%%%02X", c);
    }
    return length < size;
}
