/* See text.h. */
#include "util/text.h"

#include <string.h>

#include "util/error.h"
#include "util/escape.h"

int simba__text_cut(const char *text, size_t most)
{
    size_t length = strnlen(text, most + 1);
    if (length <= most)
        return (int)length;
    length = most;
    while (length > 0 && ((unsigned char)text[length] & 0xC0) == 0x80)
        length--;
    return (int)length;
}

/* The rules that mutex names and ids share. Counts characters. */
static int check_name(const char *what, const char *name, size_t *ret_characters, simba_error *err)
{
    if (!name)
        return simba__fail(err, SIMBA_EINVAL, "%s is NULL", what);
    if (name[0] == '\0')
        return simba__fail(err, SIMBA_EINVAL, "%s is empty", what);

    size_t characters = 0;
    for (const char *s = name; *s;) {
        uint32_t code;
        const size_t length = simba__utf8_next(s, &code);
        if (length == 0)
            return simba__fail(err, SIMBA_EINVAL, "%s is not valid UTF-8 at byte %zu", what, (size_t)(s - name));
        if (code < 0x20 || code == 0x7F)
            return simba__fail(err, SIMBA_EINVAL, "%s has a control character at byte %zu", what, (size_t)(s - name));
        s += length;
        characters++;
    }
    if (name[0] == ' ' || name[strlen(name) - 1] == ' ')
        return simba__fail(err, SIMBA_EINVAL, "%s \"%.*s\" is blank, or begins or ends with a blank", what,
                           simba__text_cut(name, 80), name);
    *ret_characters = characters;
    return 0;
}

int simba__check_mutex(const char *mutex, simba_error *err)
{
    size_t characters;
    const int rc = check_name("mutex name", mutex, &characters, err);
    if (rc < 0)
        return rc;
    if (characters > SIMBA_MUTEX_MAX)
        return simba__fail(err, SIMBA_EINVAL, "mutex name \"%.*s…\" has %zu characters, at most %d are allowed",
                           simba__text_cut(mutex, 32), mutex, characters, SIMBA_MUTEX_MAX);
    return 0;
}

int simba__check_id(const char *id, simba_error *err)
{
    size_t characters;
    const int rc = check_name("contender id", id, &characters, err);
    if (rc < 0)
        return rc;
    if (strlen(id) > SIMBA_ID_MAX)
        return simba__fail(err, SIMBA_EINVAL, "contender id \"%.*s…\" has %zu bytes, at most %d are allowed",
                           simba__text_cut(id, 32), id, strlen(id), SIMBA_ID_MAX);
    if (strstr(id, "@@"))
        return simba__fail(err, SIMBA_EINVAL, "contender id \"%s\" contains \"@@\", which separates fields", id);
    return 0;
}
