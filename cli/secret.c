/* See secret.h. */
#include "secret.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"

/* A password becomes a part of the URL, and the library takes none that is longer. */
#define SECRET_MAX 4096

bool secret_is_exposed(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && (info.st_mode & S_IROTH) != 0;
}

int secret_from_file(const char *command, const char *path, const char **ret_secret)
{
    static char secret[SECRET_MAX + 2]; /* and the end of the line */
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return -1;
    if (secret_is_exposed(fileno(file)))
        cli_warn(command, "everybody can read the password in %s; chmod o-r would prevent that.", path);
    secret[0] = '\0';
    errno = 0;
    const bool read = fgets(secret, sizeof secret, file) != NULL || !ferror(file);
    const int error = errno;
    fclose(file);
    const size_t length = strcspn(secret, "\r\n");
    if (!read || length > SECRET_MAX) {
        errno = read ? EFBIG : error;
        return -1;
    }
    secret[length] = '\0';
    *ret_secret = secret;
    return 0;
}

int secret_from_environment(const char *command, const char **ret_secret, const char **ret_path)
{
    const char *secret = getenv("SIMBA_PASSWORD");
    const char *path = getenv("SIMBA_PASSWORD_FILE");
    *ret_secret = NULL;
    *ret_path = path;
    if (secret != NULL && secret[0] != '\0') {
        *ret_secret = secret;
        return 0;
    }
    return path != NULL && path[0] != '\0' ? secret_from_file(command, path, ret_secret) : 0;
}

size_t secret_escape(const char *text, const char *plain, char *out)
{
    char *end = out;
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        const bool is_plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
                              strchr(plain, *c) != NULL;
        end += sprintf(end, is_plain ? "%c" : "%%%02X", *c);
    }
    return (size_t)(end - out);
}

char *secret_into_url(const char *url, const char *password)
{
    const char *begin = strstr(url, "://");
    if (password == NULL || begin == NULL)
        return strdup(url);
    begin += 3;
    const char *end = begin + strcspn(begin, "/?#");
    /* The last "@" of the authority: one in a password may not have been escaped. */
    const char *at = end;
    while (at > begin && at[-1] != '@')
        at--;
    const size_t user_length = at > begin ? (size_t)(at - begin) - 1 : 0;
    if (end == begin || memchr(begin, ':', user_length) != NULL)
        return strdup(url);

    const size_t size = strlen(url) + 3 * strlen(password) + 3;
    char *made = malloc(size);
    if (made == NULL)
        return NULL;
    size_t length = (size_t)snprintf(made, size, "%.*s:", (int)(begin - url) + (int)user_length, url);
    length += secret_escape(password, "-._~", made + length);
    snprintf(made + length, size - length, "@%s", at > begin ? at : begin);
    return made;
}

/* The password with its colon and, after it, the "@". Not only in the authority: a URL whose password has a "/" that was
 * not escaped is refused, but is shown. In none that is accepted do a ":" and then an "@" stand further on. */
static bool find_password(const char *url, size_t *ret_colon, size_t *ret_at)
{
    const char *scheme = strstr(url, "://");
    const char *from = scheme != NULL ? scheme + 3 : url;
    const char *at = strrchr(from, '@');
    const char *colon = at != NULL ? memchr(from, ':', (size_t)(at - from)) : NULL;
    if (colon == NULL)
        return false;
    *ret_colon = (size_t)(colon - url);
    *ret_at = (size_t)(at - url);
    return true;
}

bool secret_is_in_url(const char *url)
{
    size_t colon;
    size_t at;
    return find_password(url, &colon, &at);
}

void secret_strip(char *url)
{
    size_t colon;
    size_t at;
    if (!find_password(url, &colon, &at))
        return;
    const bool has_user = colon > 0 && url[colon - 1] != '/';
    memmove(url + colon, url + at + !has_user, strlen(url + at + !has_user) + 1);
}

void secret_hide(char *url)
{
    size_t colon;
    size_t at;
    if (find_password(url, &colon, &at))
        memset(url + colon + 1, '*', at - colon - 1);
}
