/* See settings.h. */
#include "backends/sql/settings.h"

#include <stdlib.h>
#include <string.h>

#include "util/error.h"
#include "util/url.h"

int simba__sql_setting_number(const simba_url *url, const char *store, const char *key, long least, long most,
                              unsigned *number, simba_error *err)
{
    const char *text = simba_url_query(url, key);
    char *end;
    if (!text)
        return 0;
    const long given = strtol(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || given < least || given > most)
        return simba__fail(err, SIMBA_EURL, "%s: %s is \"%s\"; it must be a number from %ld to %ld", store, key, text,
                           least, most);
    *number = (unsigned)given;
    return 0;
}

int simba__sql_setting_flag(const simba_url *url, const char *store, const char *key, bool *flag, simba_error *err)
{
    const char *text = simba_url_query(url, key);
    if (!text)
        return 0;
    *flag = strcmp(text, "yes") == 0;
    if (!*flag && strcmp(text, "no") != 0)
        return simba__fail(err, SIMBA_EURL, "%s: %s is \"%s\"; it can be yes or no", store, key, text);
    return 0;
}

int simba__sql_setting_ms(const simba_url *url, const char *store, const char *key, unsigned *ms, simba_error *err)
{
    int64_t given = *ms;
    const int rc = simba__url_duration(url, key, &given, err);
    if (rc < 0)
        return rc;
    if (given < 1 || given > 3600000)
        return simba__fail(err, SIMBA_EURL, "%s: %s is from 1ms to 1h", store, key);
    *ms = (unsigned)given;
    return 0;
}

int simba__sql_setting_name(const simba_url *url, const char *store, const char *key, size_t most, char *name,
                            simba_error *err)
{
    const char *text = simba_url_query(url, key);
    if (!text)
        return 0;
    if (text[0] == '\0' || strlen(text) > most ||
        strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$") != strlen(text))
        return simba__fail(err, SIMBA_EURL, "%s: %s is \"%.64s\"; it may have letters, digits, _ and $", store, key,
                           text);
    strcpy(name, text);
    return 0;
}
