/* `simba serve`: a page, JSON and metrics about a store, by HTTP. cli/serve does the work; this file reads the
 * options. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "secret.h"

#define COMMAND "serve"

/* The files that the options name. */
typedef struct files {
    const char *token, *cert, *key, *client_ca;
} files;

#ifdef SIMBA_CLI_WITH_HTTP

#include "serve/server.h"

enum { TOKEN_MIN = 16, PEM_MAX = 65536 };
#define TOKEN_CREDENTIAL "simba-serve.token"

static int cannot_read(const char *option, const char *path, const char *why)
{
    return cli_fail(COMMAND, CLI_CONFIG, "--%s: %s cannot be read: %s.", option, path, why);
}

/* The token, from a file or from systemd's credential for this service. */
static int read_token(const char *path, char **ret_token)
{
    char credential[4096];
    const char *folder = getenv("CREDENTIALS_DIRECTORY");
    const char *token = NULL;
    if (path == NULL && folder != NULL) {
        snprintf(credential, sizeof credential, "%s/" TOKEN_CREDENTIAL, folder);
        if (secret_from_file(COMMAND, credential, &token) < 0)
            return errno == ENOENT ? CLI_GO : cannot_read("token-file", credential, strerror(errno));
        path = credential;
    } else if (path != NULL && secret_from_file(COMMAND, path, &token) < 0) {
        return cannot_read("token-file", path, strerror(errno));
    }
    if (token == NULL)
        return CLI_GO;
    if (strlen(token) < TOKEN_MIN || strpbrk(token, " \t") != NULL)
        return cli_fail(COMMAND, CLI_CONFIG,
                        "the token in %s wants at least %d characters and no blanks; `openssl rand -hex 32` makes one.",
                        path, TOKEN_MIN);
    *ret_token = strdup(token); /* there is room for one secret, and the store may have one too */
    return *ret_token != NULL ? CLI_GO : CLI_SYSTEM;
}

static int read_pem(const char *option, const char *path, char **ret_text)
{
    if (path == NULL)
        return CLI_GO;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return cannot_read(option, path, strerror(errno));
    char *text = calloc(1, PEM_MAX + 1);
    const size_t length = text != NULL ? fread(text, 1, PEM_MAX + 1, file) : 0;
    fclose(file);
    if (length == 0 || length > PEM_MAX) {
        free(text);
        return cannot_read(option, path, length == 0 ? "it is empty" : "it is too long for a certificate");
    }
    *ret_text = text;
    return CLI_GO;
}

static int read_and_serve(cli_globals *globals, const files *f, const char *listen, bool allow_release)
{
    char *token = NULL;
    char *pem[3] = {NULL};
    int code = read_token(f->token, &token);
    if (code == CLI_GO)
        code = read_pem("tls-cert", f->cert, &pem[0]);
    if (code == CLI_GO)
        code = read_pem("tls-key", f->key, &pem[1]);
    if (code == CLI_GO)
        code = read_pem("client-ca", f->client_ca, &pem[2]);
    const serve_options options = {listen, token, {pem[0], pem[1], pem[2]}, allow_release};
    if (code == CLI_GO)
        code = serve_run(globals, &options);
    free(token);
    for (size_t i = 0; i < 3; i++)
        free(pem[i]);
    return code;
}

#endif

int cmd_serve(cli_globals *globals, int argc, char **argv)
{
    const char *listen = "127.0.0.1:7460";
    files f = {0};
    bool allow_release = false;
    const cli_option own[] = {
        {"listen", 0, CLI_TEXT, "ADDRESS", "Listen here: ADDRESS:PORT (127.0.0.1:7460)", &listen},
        {"token-file", 0, CLI_TEXT, "FILE", "Ask clients for the token in this file", &f.token},
        {"tls-cert", 0, CLI_TEXT, "FILE", "Speak HTTPS with this certificate", &f.cert},
        {"tls-key", 0, CLI_TEXT, "FILE", "Key of that certificate", &f.key},
        {"client-ca", 0, CLI_TEXT, "FILE", "Clients certified by this CA may read", &f.client_ca},
        {"allow-release", 0, CLI_FLAG, NULL, "Clients with the token may take mutexes away", &allow_release},
    };
    const cli_syntax syntax = {
        .command = COMMAND,
        .about = "Shows the mutexes of a store in a browser: who owns each, for how much longer,\n"
                 "and what has changed. Programs get the same as JSON (/api/v1/mutexes), as events\n"
                 "(/api/v1/events) and as metrics (/metrics); /healthz and /readyz are for probes.\n"
                 "Reading changes nothing in the store.",
        CLI_OPTIONS(own),
        .takes = CLI_TAKES_URL,
    };
    const int parsed = cli_parse(&syntax, globals, &argc, argv);
    if (parsed != CLI_GO)
        return parsed;
    if ((f.cert == NULL) != (f.key == NULL))
        return cli_usage_error(COMMAND, "--tls-cert and --tls-key go together");
    if (f.client_ca != NULL && f.cert == NULL)
        return cli_usage_error(COMMAND, "--client-ca wants --tls-cert and --tls-key as well");
#ifdef SIMBA_CLI_HTTP_LINKED
    if (f.cert != NULL)
        return cli_fail(COMMAND, CLI_CONFIG, "this simba was linked statically, and serves without TLS.");
#endif
#ifdef SIMBA_CLI_WITH_HTTP
    return read_and_serve(globals, &f, listen, allow_release);
#else
    (void)argv;
    return cli_fail(COMMAND, CLI_CONFIG, "this simba was built without libmicrohttpd, which it needs for that.");
#endif
}
