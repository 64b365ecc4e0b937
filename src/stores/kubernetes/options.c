/* What a Kubernetes URL says, and where the credentials come from:
 *
 *   kubernetes://[/NAMESPACE]                    in a pod: KUBERNETES_SERVICE_HOST and _PORT, and the files of its service account
 *   kubernetes://HOST[:PORT]/NAMESPACE?…         ca=FILE, cert=FILE&key=FILE, token-file=FILE, verify=no; tls=no for `kubectl proxy`
 *   kubernetes://[/NAMESPACE]?config=FILE        the output of `kubectl config view --raw --minify --flatten -o json`
 *
 * The default port is 6443. What the URL says comes before what a file says. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stores/kubernetes/kubernetes.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/url.h"

#define ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount/"

enum { FILE_MOST = 1 << 20 };

static int out_of_memory(simba_error *err)
{
    return simba__fail(err, SIMBA_ENOMEM, "out of memory");
}

/* --- files ------------------------------------------------------------------------------------------- */

/* The whole of a small file, with a zero byte behind it. */
static int read_file(const char *path, char **ret_text, size_t *ret_length, simba_error *err)
{
    FILE *file = fopen(path, "re");
    char *text = file ? simba__malloc(FILE_MOST + 1) : NULL;
    const size_t length = text ? fread(text, 1, FILE_MOST + 1, file) : 0;
    const int cause = errno;
    const bool failed = !file || ferror(file);
    if (file)
        fclose(file);
    if (!failed && text && length <= FILE_MOST) {
        text[length] = '\0';
        *ret_text = text;
        *ret_length = length;
        return 0;
    }
    simba__free(text);
    if (file && !text)
        return out_of_memory(err);
    return simba__fail(err, SIMBA_EURL, "kubernetes: %.100s cannot be read: %s", path,
                       failed ? strerror(cause) : "it is too large");
}

static void free_secret(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    simba__free(text);
}

int simba__kube_read_token(const char *path, char **ret_token, simba_error *err)
{
    char *text;
    size_t length;
    const int rc = read_file(path, &text, &length, err);
    if (rc < 0)
        return rc;
    text[strcspn(text, "\r\n")] = '\0';
    *ret_token = text[0] ? simba__strdup(text) : NULL;
    const bool is_empty = text[0] == '\0';
    explicit_bzero(text, length);
    simba__free(text);
    if (is_empty)
        return simba__fail(err, SIMBA_EURL, "kubernetes: there is no token in %.100s", path);
    return *ret_token ? 0 : out_of_memory(err);
}

/* OpenSSL reads files: so what stands in a text becomes one, in memory. */
static int make_file(kube_options *options, simba__json base64, size_t slot, char **ret_path, simba_error *err)
{
    char *bytes = simba__malloc(base64.length + 1);
    char path[40];
    size_t length;
    if (!bytes)
        return out_of_memory(err);
    int rc = 0;
    if (!simba__json_base64(base64, bytes, base64.length + 1, &length))
        rc = simba__fail(err, SIMBA_EURL, "kubernetes: a certificate or key in the config is not base64");
    if (rc == 0) {
        options->memory[slot] = memfd_create("simba", MFD_CLOEXEC);
        if (options->memory[slot] < 0 || write(options->memory[slot], bytes, length) != (ssize_t)length)
            rc = simba__fail(err, SIMBA_ESYSTEM, "kubernetes: no room for a certificate: %s", strerror(errno));
    }
    explicit_bzero(bytes, base64.length + 1);
    simba__free(bytes);
    snprintf(path, sizeof path, "/proc/self/fd/%d", options->memory[slot]);
    if (rc == 0 && !(*ret_path = simba__strdup(path)))
        rc = out_of_memory(err);
    return rc;
}

/* --- the output of kubectl config view ---------------------------------------------------------------- */

static int text_of(simba__json value, char **ret_text, simba_error *err)
{
    if (value.length == 0)
        return 0;
    char *text = simba__malloc(value.length + 1);
    if (!text)
        return out_of_memory(err);
    *ret_text = text;
    return simba__json_text(value, text, value.length + 1)
               ? 0
               : simba__fail(err, SIMBA_EURL, "kubernetes: a value of the config is no text");
}

/* A file's name or its contents. */
static int file_of(kube_options *options, simba__json object, const char *key, size_t slot, char **ret_path,
                   simba_error *err)
{
    char data[64];
    snprintf(data, sizeof data, "%s-data", key);
    const simba__json inside = simba__json_get(object, data);
    return inside.length > 0 ? make_file(options, inside, slot, ret_path, err)
                             : text_of(simba__json_get(object, key), ret_path, err);
}

/* https://host:port/prefix */
static int take_server(kube_options *options, const char *text, simba_error *err)
{
    simba_url *url = NULL;
    simba__endpoint *found = NULL;
    size_t count = 0;
    int rc = simba_url_parse(text, err, &url);
    if (rc < 0)
        return simba__wrap(err, rc, "kubernetes: the server of the config");
    options->tls = strcmp(simba_url_scheme(url), "http") != 0;
    rc = simba__endpoints_parse("kubernetes", simba_url_authority(url), options->tls ? 443 : 80, err, &found, &count);
    if (rc == 0)
        options->at = found[0];
    simba__free(found);
    const char *path = simba_url_path(url);
    const size_t length = strlen(path);
    if (rc == 0 && !(options->prefix = simba__strdup(path)))
        rc = out_of_memory(err);
    if (rc == 0 && length > 0 && path[length - 1] == '/')
        options->prefix[length - 1] = '\0';
    simba_url_free(url);
    return rc;
}

static int take_config(kube_options *options, const char *path, simba_error *err)
{
    char *text = NULL, *server = NULL, *space = NULL;
    size_t length = 0;
    simba__json config, first[3] = {{0}};
    int rc = read_file(path, &text, &length, err);
    if (rc < 0)
        return rc;
    if (!simba__json_read(text, length, &config))
        rc = simba__fail(
            err, SIMBA_EURL,
            "kubernetes: %.80s is not JSON: make it by `kubectl config view --raw --minify --flatten -o json`", path);
    static const char *const lists[] = {"clusters", "users", "contexts"};
    static const char *const members[] = {"cluster", "user", "context"};
    for (int i = 0; rc == 0 && i < 3; i++) {
        simba__json element = {0};
        if (simba__json_next(simba__json_get(config, lists[i]), &element))
            first[i] = simba__json_get(element, members[i]);
        if (simba__json_next(simba__json_get(config, lists[i]), &element))
            rc = simba__fail(err, SIMBA_EURL, "kubernetes: %.100s has several %s: make it with --minify", path,
                             lists[i]);
    }
    const simba__json cluster = first[0], user = first[1];
    if (rc == 0 && simba__json_get(cluster, "server").length == 0)
        rc = simba__fail(err, SIMBA_EURL, "kubernetes: %.100s names no server", path);
    if (rc == 0 && simba__json_get(user, "exec").length > 0)
        rc = simba__fail(err, SIMBA_EURL,
                         "kubernetes: the user of %.80s logs in by a program: run `kubectl proxy`, and use tls=no",
                         path);
    if (rc == 0)
        rc = text_of(simba__json_get(cluster, "server"), &server, err);
    if (rc == 0)
        rc = take_server(options, server, err);
    if (rc == 0)
        rc = text_of(simba__json_get(cluster, "tls-server-name"), &options->tls_name, err);
    if (rc == 0)
        rc = file_of(options, cluster, "certificate-authority", 0, &options->ca, err);
    if (rc == 0)
        rc = file_of(options, user, "client-certificate", 1, &options->cert, err);
    if (rc == 0)
        rc = file_of(options, user, "client-key", 2, &options->key, err);
    if (rc == 0)
        rc = text_of(simba__json_get(user, "tokenFile"), &options->token_file, err);
    if (rc == 0 && !options->token_file)
        rc = text_of(simba__json_get(user, "token"), &options->token, err);
    if (rc == 0)
        rc = text_of(simba__json_get(first[2], "namespace"), &space, err);
    if (rc == 0)
        snprintf(options->space, sizeof options->space, "%s", space && space[0] ? space : "default");
    options->files.verify = !simba__json_bool(simba__json_get(cluster, "insecure-skip-tls-verify"));
    explicit_bzero(text, length);
    simba__free(text);
    simba__free(server);
    simba__free(space);
    return rc;
}

/* --- in a pod ---------------------------------------------------------------------------------------- */

static int take_pod(kube_options *options, simba_error *err)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    const char *port = getenv("KUBERNETES_SERVICE_PORT");
    if (!host || !port || !simba__endpoint_set(&options->at, host, strlen(host), strtol(port, NULL, 10)))
        return simba__fail(
            err, SIMBA_EURL,
            "kubernetes:// without a host works in a pod (KUBERNETES_SERVICE_HOST is not set): elsewhere write "
            "kubernetes://host:port/namespace?token-file=FILE&ca=FILE, or kubernetes://?config=FILE");
    char *text = NULL;
    size_t length;
    if (read_file(ACCOUNT "namespace", &text, &length, NULL) == 0)
        snprintf(options->space, sizeof options->space, "%.*s", (int)strcspn(text, "\r\n "), text);
    simba__free(text);
    if (access(ACCOUNT "token", F_OK) == 0 && !(options->token_file = simba__strdup(ACCOUNT "token")))
        return out_of_memory(err);
    if (access(ACCOUNT "ca.crt", F_OK) == 0 && !(options->ca = simba__strdup(ACCOUNT "ca.crt")))
        return out_of_memory(err);
    return 0;
}

/* --- the URL ----------------------------------------------------------------------------------------- */

static int take_host(kube_options *options, const simba_url *url, simba_error *err)
{
    simba__endpoint *found = NULL;
    size_t count = 0;
    int rc = simba__url_flag(url, "tls", &options->tls, err);
    if (rc == 0)
        rc = simba__endpoints_parse("kubernetes", simba_url_authority(url), 6443, err, &found, &count);
    if (rc == 0 && count > 1)
        rc = simba__fail(err, SIMBA_EURL, "a kubernetes URL names one host");
    if (rc == 0)
        options->at = found[0];
    simba__free(found);
    return rc;
}

static int take_namespace(kube_options *options, const simba_url *url, simba_error *err)
{
    const char *path = simba_url_path(url);
    if (path[0] == '/' && path[1] != '\0')
        snprintf(options->space, sizeof options->space, "%.70s", path + 1);
    if (options->space[0] == '\0')
        return simba__fail(err, SIMBA_EURL, "the kubernetes URL names no namespace: kubernetes://host:port/namespace");
    if (strspn(options->space, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(options->space) ||
        (path[0] == '/' && strlen(path + 1) >= sizeof options->space))
        return simba__fail(err, SIMBA_EURL, "\"%.70s\" cannot be a namespace of Kubernetes", options->space);
    return 0;
}

static int take_files(kube_options *options, const simba_url *url, simba_error *err)
{
    const bool verified = options->files.verify;
    const char *token_file = simba_url_query(url, "token-file");
    int rc = simba__tls_files_of_url(url, options->tls ? NULL : "kubernetes URLs without tls=no", &options->files, err);
    if (rc < 0)
        return rc;
    options->files.verify &= verified;
    if (!options->files.ca)
        options->files.ca = options->ca;
    if (!options->files.cert) {
        options->files.cert = options->cert;
        options->files.key = options->key;
    }
    if (token_file) {
        simba__free(options->token_file);
        options->token_file = simba__strdup(token_file);
        if (!options->token_file)
            return out_of_memory(err);
    }
    if (!options->token_file)
        return 0;
    free_secret(options->token);
    options->token = NULL;
    return simba__kube_read_token(options->token_file, &options->token, err);
}

/* The pod's name is its host name, unless somebody has said otherwise. */
static int take_label(kube_options *options, const simba_url *url, simba_error *err)
{
    const char *label = simba_url_query(url, "label");
    const char *value = label ? strchr(label, '=') : NULL;
    const char *pod = getenv("POD_NAME");
    char host[KUBE_NAME_SIZE] = "";
    if (!label)
        return 0;
    if (!value || value == label)
        return simba__fail(err, SIMBA_EURL, "label of the kubernetes URL is KEY%%3DVALUE");
    options->label_key = simba__strdup(label);
    options->label_value = simba__strdup(value + 1);
    if (!options->label_key || !options->label_value)
        return out_of_memory(err);
    options->label_key[value - label] = '\0';
    if (gethostname(host, sizeof host - 1) < 0)
        host[0] = '\0';
    snprintf(options->pod, sizeof options->pod, "%s", pod && pod[0] ? pod : host);
    if (strspn(options->pod, "abcdefghijklmnopqrstuvwxyz0123456789-.") != strlen(options->pod) ||
        options->pod[0] == '\0')
        return simba__fail(err, SIMBA_EURL, "label needs the name of the pod: set POD_NAME to metadata.name");
    return 0;
}

int simba__kube_options_parse(const simba_url *url, kube_options *ret_options, simba_error *err)
{
    kube_options *options = ret_options;
    unsigned connect_ms = 2000;
    unsigned timeout_ms = 4000;
    const char *config = simba_url_query(url, "config");
    const bool named = simba_url_authority(url)[0] != '\0';
    *options = (kube_options){.tls = true, .memory = {-1, -1, -1}, .files.verify = true};
    if (simba_url_user(url))
        return simba__fail(err, SIMBA_EURL,
                           "a kubernetes URL has no user: use token-file=, cert= and key=, or config=");
    if (config && named)
        return simba__fail(err, SIMBA_EURL, "the kubernetes URL has a host and config=, which names one too");
    int rc = config ? take_config(options, config, err) : named ? take_host(options, url, err) : take_pod(options, err);
    if (rc == 0 && !options->prefix && !(options->prefix = simba__strdup("")))
        rc = out_of_memory(err);
    if (rc == 0)
        rc = take_namespace(options, url, err);
    if (rc == 0)
        rc = take_files(options, url, err);
    if (rc == 0)
        rc = take_label(options, url, err);
    if (rc == 0)
        rc = simba__url_timeout(url, "connect-timeout", &connect_ms, err);
    if (rc == 0)
        rc = simba__url_timeout(url, "timeout", &timeout_ms, err);
    options->connect_timeout_ns = connect_ms * SIMBA__NS_PER_MS;
    options->timeout_ns = timeout_ms * SIMBA__NS_PER_MS;
    return rc;
}

void simba__kube_options_free(kube_options *options)
{
    for (size_t i = 0; i < sizeof options->memory / sizeof *options->memory; i++)
        if (options->memory[i] > 0)
            close(options->memory[i]);
    free_secret(options->token);
    simba__free(options->token_file);
    simba__free(options->prefix);
    simba__free(options->label_key);
    simba__free(options->label_value);
    simba__free(options->tls_name);
    simba__free(options->ca);
    simba__free(options->cert);
    simba__free(options->key);
    *options = (kube_options){0};
}
