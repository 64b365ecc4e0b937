/* See config.h. The keys are those of Simba on the JVM (simba.redis.ttl), so that people who know one file can read
 * the other. An unknown key, a repeated key or a contradiction is an error that names the line. */
#include "config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "say.h"
#include "secret.h"

#define LINE_MAX_BYTES 4096

/* "jdbc" is what the JVM calls its MySQL store. */
static const char *const stores[] = {"sqlite",    "redis", "mysql",      "jdbc",  "postgresql",
                                     "zookeeper", "etcd",  "kubernetes", "memory"};
static const char *const keys[] = {"enabled", "url", "ttl", "transition", "password-file", "password-env"};
/* How the URLs of each begin, up to a "+". */
static const char *const schemes[][3] = {{"sqlite"},
                                         {"redis", "rediss"},
                                         {"mysql", "mariadb"},
                                         {"mysql", "mariadb"},
                                         {"postgresql", "postgres"},
                                         {"zookeeper", "zookeepers"},
                                         {"etcd", "etcds"},
                                         {"kubernetes"},
                                         {"memory"}};
enum { STORES = sizeof stores / sizeof stores[0], KEYS = sizeof keys / sizeof keys[0] };
enum { KEY_ENABLED, KEY_URL, KEY_TTL, KEY_TRANSITION, KEY_PASSWORD_FILE, KEY_PASSWORD_ENV };

typedef struct setting {
    char *value; /* NULL: not given */
    int line;
} setting;

typedef struct config {
    const char *command;
    const char *path;
    setting enabled;
    setting log_format;
    setting of[STORES][KEYS];
} config;

/* --- reading ---------------------------------------------------------------------------------------- */

static int __attribute__((format(printf, 3, 4))) complain(const config *c, int line, const char *format, ...)
{
    char text[800];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return cli_fail(c->command, CLI_CONFIG, "%s:%d: %s.", c->path, line, text);
}

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r\n", text[length - 1]) != NULL)
        text[--length] = '\0';
    return text;
}

/* "simba.redis.ttl" → where its value goes; NULL: there is no such key. */
static setting *find_setting(config *c, const char *key)
{
    if (strcmp(key, "simba.enabled") == 0)
        return &c->enabled;
    if (strcmp(key, "simba.log-format") == 0)
        return &c->log_format;
    if (strncmp(key, "simba.", 6) != 0)
        return NULL;
    const char *store = key + 6;
    const size_t length = strcspn(store, ".");
    for (size_t s = 0; s < STORES; s++) {
        if (strlen(stores[s]) != length || strncmp(stores[s], store, length) != 0 || store[length] == '\0')
            continue;
        for (size_t k = 0; k < KEYS; k++) {
            if (strcmp(keys[k], store + length + 1) == 0)
                return &c->of[s][k];
        }
    }
    return NULL;
}

static int read_line(config *c, char *text, int line)
{
    text = trim(text);
    if (text[0] == '\0' || text[0] == '#')
        return CLI_GO;
    const size_t at = strcspn(text, "=:");
    if (text[at] == '\0')
        return complain(c, line, "this is neither \"key = value\" nor a comment");
    text[at] = '\0';
    const char *key = trim(text);
    const char *value = trim(text + at + 1);
    setting *s = find_setting(c, key);
    if (s == NULL)
        return complain(c, line, "there is no key \"%s\"", key);
    if (s->value != NULL)
        return complain(c, line, "%s was already given in line %d", key, s->line);
    s->value = strdup(value);
    s->line = line;
    return s->value != NULL ? CLI_GO : complain(c, line, "out of memory");
}

static int read_lines(config *c, FILE *file)
{
    char text[LINE_MAX_BYTES];
    int code = CLI_GO;
    for (int line = 1; code == CLI_GO && fgets(text, sizeof text, file) != NULL; line++) {
        if (strlen(text) == sizeof text - 1 && text[sizeof text - 2] != '\n')
            code = complain(c, line, "the line is too long");
        else
            code = read_line(c, text, line);
    }
    /* A folder, for instance, can be opened but not read; going on would use another store than was meant. */
    if (code == CLI_GO && ferror(file))
        return cli_fail(c->command, CLI_CONFIG, "%s cannot be read: %s.", c->path, strerror(errno));
    return code;
}

/* --- making sense of it ------------------------------------------------------------------------------ */

static int read_bool(const config *c, const setting *s, bool fallback, bool *ret_value)
{
    *ret_value = fallback;
    if (s->value == NULL)
        return CLI_GO;
    *ret_value = strcmp(s->value, "true") == 0;
    if (!*ret_value && strcmp(s->value, "false") != 0)
        return complain(c, s->line, "\"%s\" is neither true nor false", s->value);
    return CLI_GO;
}

static int read_duration(const config *c, const setting *s, int64_t *value)
{
    if (s->value == NULL || *value != SIMBA_INHERIT || simba_duration_parse(s->value, value) == 0)
        return CLI_GO;
    return complain(c, s->line, "\"%s\" is not a duration such as 500ms, 10s or 2m", s->value);
}

static bool is_url_of(const char *url, size_t store)
{
    const size_t length = strcspn(url, ":+");
    for (const char *const *scheme = schemes[store]; *scheme != NULL; scheme++) {
        if (strlen(*scheme) == length && strncmp(url, *scheme, length) == 0)
            return true;
    }
    return false;
}

/* The one store that has a URL and is not disabled; STORES: none. */
static int choose_store(const config *c, size_t *ret_store)
{
    size_t chosen = STORES;
    for (size_t s = 0; s < STORES; s++) {
        bool enabled;
        const int code = read_bool(c, &c->of[s][KEY_ENABLED], true, &enabled);
        if (code != CLI_GO)
            return code;
        if (!enabled || c->of[s][KEY_URL].value == NULL)
            continue;
        if (c->of[s][KEY_URL].value[0] == '\0')
            return complain(c, c->of[s][KEY_URL].line, "simba.%s.url is empty", stores[s]);
        if (!is_url_of(c->of[s][KEY_URL].value, s))
            return complain(c, c->of[s][KEY_URL].line, "simba.%s.url is not a URL of that store (%s://…)", stores[s],
                            schemes[s][0]);
        if (chosen < STORES)
            return complain(c, c->of[s][KEY_URL].line, "there are two stores, %s and %s; disable one of them",
                            stores[chosen], stores[s]);
        chosen = s;
    }
    *ret_store = chosen;
    return CLI_GO;
}

/* Settings of a store without a URL would be ignored silently. */
static int refuse_idle_settings(const config *c, size_t chosen)
{
    for (size_t s = 0; s < STORES; s++) {
        bool enabled = true;
        read_bool(c, &c->of[s][KEY_ENABLED], true, &enabled);
        for (size_t k = KEY_TTL; enabled && s != chosen && k < KEYS; k++) {
            if (c->of[s][k].value != NULL)
                return complain(c, c->of[s][k].line, "simba.%s.%s has no use without simba.%s.url", stores[s], keys[k],
                                stores[s]);
        }
    }
    return CLI_GO;
}

static int apply_password(const config *c, const setting of[KEYS], cli_globals *globals)
{
    const setting *file = &of[KEY_PASSWORD_FILE];
    const setting *variable = &of[KEY_PASSWORD_ENV];
    if (file->value != NULL && variable->value != NULL)
        return complain(c, variable->line, "the password comes from a file or from the environment, not from both");
    if (file->value != NULL && secret_from_file(c->command, file->value, &globals->password) < 0)
        return complain(c, file->line, "%s cannot be read: %s", file->value, strerror(errno));
    if (variable->value != NULL) {
        static char kept[LINE_MAX_BYTES]; /* for as long as the process runs */
        snprintf(kept, sizeof kept, "%s", variable->value);
        globals->password_variable = kept;
        globals->password = getenv(variable->value);
        if (globals->password == NULL)
            return complain(c, variable->line, "the environment variable %s is not set", variable->value);
    }
    return CLI_GO;
}

static int apply_log_format(const config *c, const cli_globals *globals)
{
    if (globals->log_format != NULL || c->log_format.value == NULL || say_set_format(c->log_format.value))
        return CLI_GO;
    return complain(c, c->log_format.line, "\"%s\" is none of text, journal and json", c->log_format.value);
}

/* Does an option or the environment name the store? */
static bool is_named(const cli_globals *globals)
{
    const char *variable = getenv("SIMBA_URL");
    return globals->url != NULL || (variable != NULL && variable[0] != '\0');
}

static int apply(config *c, cli_globals *globals)
{
    bool enabled;
    size_t store = STORES;
    int code = apply_log_format(c, globals);
    if (code == CLI_GO)
        code = read_bool(c, &c->enabled, true, &enabled);
    if (code == CLI_GO && !enabled)
        code = complain(c, c->enabled.line, "simba.enabled is false");
    if (code == CLI_GO)
        code = choose_store(c, &store);
    if (code == CLI_GO)
        code = refuse_idle_settings(c, store);
    /* A setting that names a store brings its own settings along. */
    if (code != CLI_GO || store == STORES || is_named(globals))
        return code;
    setting *of = c->of[store];
    code = read_duration(c, &of[KEY_TTL], &globals->ttl_ms);
    if (code == CLI_GO)
        code = read_duration(c, &of[KEY_TRANSITION], &globals->transition_ms);
    if (code == CLI_GO)
        code = apply_password(c, of, globals);
    if (code == CLI_GO) {
        static char kept[LINE_MAX_BYTES]; /* for as long as the process runs */
        snprintf(kept, sizeof kept, "%s", of[KEY_URL].value);
        globals->url = kept;
        static char used[4096];
        snprintf(used, sizeof used, "%s", c->path);
        globals->config_used = used;
    }
    return code;
}

/* Everybody can read the file. */
static void warn_of_passwords(const config *c)
{
    for (size_t s = 0; s < STORES; s++) {
        const setting *url = &c->of[s][KEY_URL];
        if (url->value != NULL && secret_is_in_url(url->value))
            cli_warn(c->command, "%s:%d: everybody can read this password; chmod o-r would prevent that.", c->path,
                     url->line);
    }
}

static void free_settings(config *c)
{
    free(c->enabled.value);
    free(c->log_format.value);
    for (size_t s = 0; s < STORES; s++) {
        for (size_t k = 0; k < KEYS; k++)
            free(c->of[s][k].value);
    }
}

/* --- finding it -------------------------------------------------------------------------------------- */

static FILE *open_default(char *path, size_t size)
{
    const char *base = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    if (base != NULL && base[0] == '/')
        snprintf(path, size, "%s/simba/simba.conf", base);
    else
        snprintf(path, size, "%s/.config/simba/simba.conf", home != NULL ? home : "");
    FILE *file = fopen(path, "re");
    if (file != NULL || errno != ENOENT)
        return file;
    snprintf(path, size, "/etc/simba/simba.conf");
    return fopen(path, "re");
}

int config_apply(const char *command, cli_globals *globals)
{
    char path[4096];
    const bool is_needed = !globals->configured && (globals->config != NULL || !is_named(globals));
    globals->configured = true;
    if (!is_needed)
        return CLI_GO;
    FILE *file = globals->config != NULL ? fopen(globals->config, "re") : open_default(path, sizeof path);
    if (file == NULL && globals->config == NULL && (errno == ENOENT || errno == ENOTDIR))
        return CLI_GO;
    config c = {.command = command, .path = globals->config != NULL ? globals->config : path};
    if (file == NULL)
        return cli_fail(command, CLI_CONFIG, "%s cannot be read: %s.", c.path, strerror(errno));
    int code = read_lines(&c, file);
    const bool exposed = secret_is_exposed(fileno(file));
    fclose(file);
    if (code == CLI_GO)
        code = apply(&c, globals);
    if (code == CLI_GO && exposed)
        warn_of_passwords(&c);
    free_settings(&c);
    return code;
}
