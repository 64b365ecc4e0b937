/* Settings in the URLs of SQL stores. See sql.h. */
#include "stores/sql/sql.h"

#include <stdlib.h>
#include <string.h>

#include "util/error.h"
#include "util/url.h"

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
