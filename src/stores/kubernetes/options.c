/* What a Kubernetes URL says, and where the credentials come from:
 *
 *   kubernetes://[/NAMESPACE]            in a pod: KUBERNETES_SERVICE_HOST and _PORT, and the files of its service account
 *   kubernetes://HOST[:PORT]/NAMESPACE?… ca=FILE, cert=FILE&key=FILE, token-file=FILE, verify=no; tls=no for `kubectl proxy`
 *
 * The default port is 6443. What the URL says comes before what the pod has. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stores/kubernetes/kubernetes.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/url.h"

#define ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount/"
#define BEARER "Bearer "

enum { TOKEN_SIZE = 16384 };

int simba__kube_read_token(const char *path, char **ret_bearer, simba_error *err)
{
    char text[TOKEN_SIZE] = BEARER;
    char *token = text + strlen(BEARER);
    FILE *file = fopen(path, "re");
    if (!file)
        return simba__fail(err, SIMBA_EURL, "kubernetes: %.100s cannot be read: %s", path, strerror(errno));
    setvbuf(file, NULL, _IONBF, 0); /* the secret is nowhere else */
    const bool is_read = fgets(token, (int)(sizeof text - strlen(BEARER)), file);
    const int cause = ferror(file) ? errno : 0;
    fclose(file);
    token[strcspn(token, "\r\n")] = '\0';
    bool fits = is_read && token[0] && strlen(text) < sizeof text - 1;
    for (const char *c = token; *c; c++)
        fits &= *c > ' ' && *c <= '~';
    *ret_bearer = fits ? simba__strdup(text) : NULL;
    explicit_bzero(text, sizeof text);
    if (fits)
        return *ret_bearer ? 0 : simba__fail(err, SIMBA_ENOMEM, "out of memory");
    return simba__fail(err, SIMBA_EURL, "kubernetes: there is no token in %.100s%s%s", path, cause ? ": " : "",
                       cause ? strerror(cause) : "");
}

/* What the kubelet gives every pod. */
static int take_pod(kube_options *options, simba_error *err)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    const char *port = getenv("KUBERNETES_SERVICE_PORT");
    if (!host || !port || !simba__endpoint_set(&options->at, host, strlen(host), strtol(port, NULL, 10)))
        return simba__fail(
            err, SIMBA_EURL,
            "kubernetes:// without a host works in a pod (KUBERNETES_SERVICE_HOST is not set): elsewhere write "
            "kubernetes://host:port/namespace?token-file=FILE&ca=FILE");
    FILE *file = fopen(ACCOUNT "namespace", "re");
    if (file && !fgets(options->space, sizeof options->space, file))
        options->space[0] = '\0';
    if (file)
        fclose(file);
    options->space[strcspn(options->space, "\r\n ")] = '\0';
    if (access(ACCOUNT "ca.crt", F_OK) == 0)
        options->files.ca = ACCOUNT "ca.crt";
    if (access(ACCOUNT "token", F_OK) == 0 && !(options->token_file = simba__strdup(ACCOUNT "token")))
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    return 0;
}

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
        strlen(path) > sizeof options->space)
        return simba__fail(err, SIMBA_EURL, "\"%.70s\" cannot be a namespace of Kubernetes", options->space);
    return 0;
}

static int take_credentials(kube_options *options, const simba_url *url, simba_error *err)
{
    const char *account_ca = options->files.ca;
    const char *token_file = simba_url_query(url, "token-file");
    int rc = simba__tls_files_of_url(url, options->tls ? NULL : "kubernetes URLs without tls=no", &options->files, err);
    if (rc < 0)
        return rc;
    if (!options->files.ca)
        options->files.ca = account_ca;
    if (!token_file)
        return 0;
    simba__free(options->token_file);
    options->token_file = simba__strdup(token_file);
    return options->token_file ? 0 : simba__fail(err, SIMBA_ENOMEM, "out of memory");
}

/* The pod's name is its host name, unless somebody has said otherwise. */
static int take_label(kube_options *options, const simba_url *url, simba_error *err)
{
    const char *label = simba_url_query(url, "label");
    const char *value = label ? strchr(label, '=') : NULL;
    const char *pod = getenv("POD_NAME");
    if (!label)
        return 0;
    if (!value || value == label)
        return simba__fail(err, SIMBA_EURL, "label of the kubernetes URL is KEY%%3DVALUE");
    options->label_key = simba__strdup(label);
    options->label_value = simba__strdup(value + 1);
    if (!options->label_key || !options->label_value)
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    options->label_key[value - label] = '\0';
    if (pod && pod[0])
        snprintf(options->pod, sizeof options->pod, "%s", pod);
    else if (gethostname(options->pod, sizeof options->pod - 1) < 0)
        options->pod[0] = '\0';
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
    *options = (kube_options){.tls = true};
    if (simba_url_user(url))
        return simba__fail(err, SIMBA_EURL, "a kubernetes URL has no user: use token-file=, or cert= and key=");
    int rc = simba_url_authority(url)[0] ? take_host(options, url, err) : take_pod(options, err);
    if (rc == 0)
        rc = take_namespace(options, url, err);
    if (rc == 0)
        rc = take_credentials(options, url, err);
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
    simba__free(options->token_file);
    simba__free(options->label_key);
    simba__free(options->label_value);
    *options = (kube_options){0};
}
