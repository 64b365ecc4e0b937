/* See config.h. The keys are those of Simba on the JVM (simba.redis.ttl), so that people who know one file can read
 * the other. An unknown key, a repeated key or a contradiction is an error that names the line. */
#include "config.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "secret.h"

#define FILE_MAX 65536

/* The stores, and how the URLs of each begin, up to a "+". "jdbc" is what the JVM calls its MySQL store. */
static const struct {
    const char *name;
    const char *schemes[2];
} stores[] = {
    {"sqlite", {"sqlite"}},
    {"redis", {"redis", "rediss"}},
    {"mysql", {"mysql", "mariadb"}},
    {"jdbc", {"mysql", "mariadb"}},
    {"postgresql", {"postgresql", "postgres"}},
    {"zookeeper", {"zookeeper", "zookeepers"}},
    {"etcd", {"etcd", "etcds"}},
    {"kubernetes", {"kubernetes"}},
    {"memory", {"memory"}},
};
static const char *const keys[] = {"enabled", "url", "ttl", "transition", "password-file", "password-env"};
enum { STORES = sizeof stores / sizeof stores[0], KEYS = sizeof keys / sizeof keys[0] };
enum { KEY_ENABLED, KEY_URL, KEY_TTL, KEY_TRANSITION, KEY_PASSWORD_FILE, KEY_PASSWORD_ENV };

typedef struct setting {
    char *value; /* NULL: not given */
    int line;
} setting;

/* The settings point into the text, for as long as the process runs. */
static struct config {
    const char *command;
    char path[4096];
    setting enabled;
    setting log_format;
    setting of[STORES][KEYS];
    char text[FILE_MAX + 1];
} config;

static int __attribute__((format(printf, 2, 3))) complain(int line, const char *format, ...)
{
    char text[800];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return cli_fail(config.command, CLI_CONFIG, "%s:%d: %s.", config.path, line, text);
}

/* --- reading ---------------------------------------------------------------------------------------- */

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r\n", text[length - 1]) != NULL)
        text[--length] = '\0';
    return text;
}

/* "simba.redis.ttl" → where its value goes; NULL: there is no such key. */
static setting *find_setting(const char *key)
{
    if (strcmp(key, "simba.enabled") == 0)
        return &config.enabled;
    if (strcmp(key, "simba.log-format") == 0)
        return &config.log_format;
    for (size_t s = 0; s < STORES; s++) {
        for (size_t k = 0; k < KEYS; k++) {
            char name[64];
            snprintf(name, sizeof name, "simba.%s.%s", stores[s].name, keys[k]);
            if (strcmp(key, name) == 0)
                return &config.of[s][k];
        }
    }
    return NULL;
}

static int read_line(char *text, int line)
{
    text = trim(text);
    if (text[0] == '\0' || text[0] == '#')
        return CLI_GO;
    char *value = text + strcspn(text, "=:");
    if (value[0] == '\0')
        return complain(line, "this is neither \"key = value\" nor a comment");
    *value++ = '\0';
    const char *key = trim(text);
    setting *s = find_setting(key);
    if (s == NULL)
        return complain(line, "there is no key \"%s\"", key);
    if (s->value != NULL)
        return complain(line, "%s was already given in line %d", key, s->line);
    *s = (setting){trim(value), line};
    if (strcmp(strrchr(key, '.'), ".enabled") == 0 && strcmp(s->value, "true") != 0 && strcmp(s->value, "false") != 0)
        return complain(line, "\"%s\" is neither true nor false", s->value);
    return CLI_GO;
}

static int read_lines(FILE *file)
{
    const size_t length = fread(config.text, 1, sizeof config.text, file);
    int line = 1;
    int code = CLI_GO;
    /* A folder, for instance, can be opened but not read; going on would use another store than was meant. */
    if (ferror(file))
        return cli_fail(config.command, CLI_CONFIG, "%s cannot be read: %s.", config.path, strerror(errno));
    if (length > FILE_MAX)
        return cli_fail(config.command, CLI_CONFIG, "%s has more than %d bytes.", config.path, FILE_MAX);
    config.text[length] = '\0';
    if (strlen(config.text) < length)
        return cli_fail(config.command, CLI_CONFIG, "%s has a zero byte.", config.path);
    for (char *at = config.text, *next; code == CLI_GO && at != NULL; at = next, line++) {
        next = strchr(at, '\n');
        if (next != NULL)
            *next++ = '\0';
        code = read_line(at, line);
    }
    return code;
}

/* --- making sense of it ------------------------------------------------------------------------------ */

static bool is_disabled(const setting *enabled)
{
    return enabled->value != NULL && strcmp(enabled->value, "false") == 0;
}

static int read_duration(const setting *s, int64_t *value)
{
    if (s->value == NULL || *value != SIMBA_INHERIT || simba_duration_parse(s->value, value) == 0)
        return CLI_GO;
    return complain(s->line, "\"%s\" is not a duration such as 500ms, 10s or 2m", s->value);
}

/* The one store that has a URL and is not disabled; STORES: none. */
static int choose_store(size_t *ret_store)
{
    size_t chosen = STORES;
    for (size_t s = 0; s < STORES; s++) {
        const setting *url = &config.of[s][KEY_URL];
        const char *name = stores[s].name;
        bool fits = false;
        if (url->value == NULL || is_disabled(&config.of[s][KEY_ENABLED]))
            continue;
        if (url->value[0] == '\0')
            return complain(url->line, "simba.%s.url is empty", name);
        for (size_t i = 0; i < 2; i++) {
            const size_t length = strcspn(url->value, ":+");
            const char *scheme = stores[s].schemes[i];
            fits |= scheme != NULL && strlen(scheme) == length && strncmp(url->value, scheme, length) == 0;
        }
        if (!fits)
            return complain(url->line, "simba.%s.url is not a URL of that store (%s://…)", name, stores[s].schemes[0]);
        if (chosen < STORES)
            return complain(url->line, "there are two stores, %s and %s; disable one of them", stores[chosen].name,
                            name);
        chosen = s;
    }
    /* Settings of a store without a URL would be ignored silently. */
    for (size_t s = 0; s < STORES; s++) {
        for (size_t k = KEY_TTL; k < KEYS && s != chosen && !is_disabled(&config.of[s][KEY_ENABLED]); k++) {
            if (config.of[s][k].value != NULL)
                return complain(config.of[s][k].line, "simba.%s.%s has no use without simba.%s.url", stores[s].name,
                                keys[k], stores[s].name);
        }
    }
    *ret_store = chosen;
    return CLI_GO;
}

static int apply_password(const setting of[KEYS], cli_globals *globals)
{
    const setting *file = &of[KEY_PASSWORD_FILE];
    const setting *variable = &of[KEY_PASSWORD_ENV];
    if (file->value != NULL && variable->value != NULL)
        return complain(variable->line, "the password comes from a file or from the environment, not from both");
    if (file->value != NULL && secret_from_file(config.command, file->value, &globals->password) < 0)
        return complain(file->line, "%s cannot be read: %s", file->value, strerror(errno));
    if (variable->value == NULL)
        return CLI_GO;
    globals->password_variable = variable->value;
    globals->password = getenv(variable->value);
    if (globals->password == NULL)
        return complain(variable->line, "the environment variable %s is not set", variable->value);
    return CLI_GO;
}

static int apply(cli_globals *globals, bool exposed)
{
    size_t store = STORES;
    const setting *format = &config.log_format;
    if (globals->log_format == NULL && format->value != NULL && !log_set_format(format->value))
        return complain(format->line, "\"%s\" is none of text, journal and json", format->value);
    if (is_disabled(&config.enabled))
        return complain(config.enabled.line, "simba.enabled is false");
    int code = choose_store(&store);
    /* An option or a variable that names a store brings its own settings along. */
    if (code == CLI_GO && store < STORES && !cli_names_store(globals)) {
        const setting *of = config.of[store];
        code = read_duration(&of[KEY_TTL], &globals->ttl_ms);
        if (code == CLI_GO)
            code = read_duration(&of[KEY_TRANSITION], &globals->transition_ms);
        if (code == CLI_GO)
            code = apply_password(of, globals);
        if (code == CLI_GO) {
            globals->url = of[KEY_URL].value;
            globals->config_used = config.path;
        }
    }
    for (size_t s = 0; s < STORES && code == CLI_GO && exposed; s++) {
        const setting *url = &config.of[s][KEY_URL];
        if (url->value != NULL && secret_is_in_url(url->value))
            cli_warn(config.command, "%s:%d: everybody can read this password; chmod o-r would prevent that.",
                     config.path, url->line);
    }
    return code;
}

/* --- finding it -------------------------------------------------------------------------------------- */

int config_apply(const char *command, cli_globals *globals)
{
    const char *base = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    FILE *file = NULL;
    memset(&config, 0, offsetof(struct config, text));
    config.command = command;
    globals->configured = true;
    if (globals->config != NULL)
        snprintf(config.path, sizeof config.path, "%s", globals->config);
    else if (base != NULL && base[0] == '/')
        snprintf(config.path, sizeof config.path, "%s/simba/simba.conf", base);
    else
        snprintf(config.path, sizeof config.path, "%s/.config/simba/simba.conf", home != NULL ? home : "");
    file = fopen(config.path, "re");
    if (file == NULL && errno == ENOENT && globals->config == NULL) {
        snprintf(config.path, sizeof config.path, "/etc/simba/simba.conf");
        file = fopen(config.path, "re");
    }
    if (file == NULL && globals->config == NULL && (errno == ENOENT || errno == ENOTDIR))
        return CLI_GO;
    if (file == NULL)
        return cli_fail(command, CLI_CONFIG, "%s cannot be read: %s.", config.path, strerror(errno));
    int code = read_lines(file);
    const bool exposed = secret_is_exposed(fileno(file));
    fclose(file);
    if (code == CLI_GO)
        code = apply(globals, exposed);
    return code;
}
