/* See secret.h. */
#include "secret.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECRET_MAX 1024

int secret_from_file(const char *path, const char **ret_secret)
{
    static char secret[SECRET_MAX];
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return -1;
    secret[0] = '\0';
    const bool read = fgets(secret, sizeof secret, file) != NULL || !ferror(file);
    fclose(file);
    secret[strcspn(secret, "\r\n")] = '\0';
    if (!read)
        return -1;
    *ret_secret = secret;
    return 0;
}

int secret_from_environment(const char **ret_secret, const char **ret_path)
{
    const char *secret = getenv("SIMBA_PASSWORD");
    const char *path = getenv("SIMBA_PASSWORD_FILE");
    *ret_secret = NULL;
    *ret_path = path;
    if (secret != NULL && secret[0] != '\0') {
        *ret_secret = secret;
        return 0;
    }
    return path != NULL && path[0] != '\0' ? secret_from_file(path, ret_secret) : 0;
}

/* Where the part between "://" and the next "/", "?" or the end is. False: there is none, or it is empty. */
static bool find_authority(const char *url, size_t *ret_from, size_t *ret_to)
{
    const char *at = strstr(url, "://");
    if (at == NULL)
        return false;
    *ret_from = (size_t)(at - url) + 3;
    *ret_to = *ret_from + strcspn(at + 3, "/?#");
    return *ret_to > *ret_from;
}

/* The last "@" of the authority: one in a password may not have been escaped. */
static const char *find_at(const char *url, size_t from, size_t to)
{
    for (size_t i = to; i > from; i--) {
        if (url[i - 1] == '@')
            return url + i - 1;
    }
    return NULL;
}

char *secret_into_url(const char *url, const char *password)
{
    size_t from;
    size_t to;
    if (password == NULL || !find_authority(url, &from, &to))
        return strdup(url);
    const char *at = find_at(url, from, to);
    const size_t user_length = at != NULL ? (size_t)(at - url) - from : 0;
    if (memchr(url + from, ':', user_length) != NULL)
        return strdup(url);

    const size_t size = strlen(url) + 3 * strlen(password) + 3;
    char *made = malloc(size);
    if (made == NULL)
        return NULL;
    int length = snprintf(made, size, "%.*s:", (int)(from + user_length), url);
    for (const unsigned char *c = (const unsigned char *)password; *c != '\0'; c++) {
        const bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
                           strchr("-._~", *c) != NULL;
        length += snprintf(made + length, size - (size_t)length, plain ? "%c" : "%%%02X", *c);
    }
    snprintf(made + length, size - (size_t)length, "@%s", url + from + (at != NULL ? user_length + 1 : 0));
    return made;
}

/* Not only in the authority: a URL whose password has a "/" that was not escaped is refused, but is shown. In none that
 * is accepted do a ":" and then an "@" stand further on. */
void secret_hide(char *url)
{
    char *scheme = strstr(url, "://");
    char *from = scheme != NULL ? scheme + 3 : url;
    const char *at = strrchr(from, '@');
    char *colon = at != NULL ? memchr(from, ':', (size_t)(at - from)) : NULL;
    if (colon != NULL)
        memset(colon + 1, '*', (size_t)(at - colon) - 1);
}
