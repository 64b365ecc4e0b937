/* See text.h. */
#include "util/text.h"

#include <string.h>

#include "util/error.h"

/* Length of the UTF-8 character at `s`, or 0 if there is none: truncated, over-long, a surrogate, or past U+10FFFF. */
static size_t utf8_length(const unsigned char *s)
{
    static const struct {
        unsigned char mask, lead, low, high; /* range of the second byte, in two cases narrower than 80..BF */
    } forms[] = {{0x80, 0x00, 0, 0}, {0xE0, 0xC0, 0x80, 0xBF}, {0xF0, 0xE0, 0x80, 0xBF}, {0xF8, 0xF0, 0x80, 0xBF}};

    for (size_t form = 0; form < 4; form++) {
        if ((s[0] & forms[form].mask) != forms[form].lead)
            continue;
        if (form == 0)
            return 1;
        unsigned char low = forms[form].low;
        unsigned char high = forms[form].high;
        if (s[0] < 0xC2 || s[0] > 0xF4)
            return 0;
        if (s[0] == 0xE0)
            low = 0xA0;
        if (s[0] == 0xED)
            high = 0x9F;
        if (s[0] == 0xF0)
            low = 0x90;
        if (s[0] == 0xF4)
            high = 0x8F;
        if (s[1] < low || s[1] > high)
            return 0;
        for (size_t i = 2; i <= form; i++)
            if ((s[i] & 0xC0) != 0x80)
                return 0;
        return form + 1;
    }
    return 0;
}

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
    for (const unsigned char *s = (const unsigned char *)name; *s;) {
        const size_t length = utf8_length(s);
        if (length == 0)
            return simba__fail(err, SIMBA_EINVAL, "%s is not valid UTF-8 at byte %zu", what,
                               (size_t)(s - (const unsigned char *)name));
        if (*s < 0x20 || *s == 0x7F)
            return simba__fail(err, SIMBA_EINVAL, "%s has a control character at byte %zu", what,
                               (size_t)(s - (const unsigned char *)name));
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

int simba__check_size(const char *what, size_t given, size_t expected, simba_error *err)
{
    if (given == expected)
        return 0;
    return simba__fail(err, SIMBA_EINVAL,
                       "%s.size is %zu and this library expects %zu: initialise with its _INIT macro, and compile and "
                       "link against the same version",
                       what, given, expected);
}
