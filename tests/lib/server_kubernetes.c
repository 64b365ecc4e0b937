/* Kubernetes' API server beside Debian's etcd, and the tests' own API server; see server.h. Both have in their folder: ca.pem, which
 * vouches for "localhost"; token, of somebody who may do everything; weak-token, of somebody who may do nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/fake_kubernetes.h"
#include "lib/server.h"

static bool write_file(const server *s, const char *name, const char *text)
{
    char path[96];
    snprintf(path, sizeof path, "%s/%s", s->folder, name);
    FILE *file = fopen(path, "w");
    if (!file)
        return false;
    fputs(text, file);
    return fclose(file) == 0;
}

static bool write_credentials(const server *s)
{
    return server_make_certificates(s->folder) && write_file(s, "token", FAKE_KUBERNETES_TOKEN "\n") &&
           write_file(s, "weak-token", FAKE_KUBERNETES_WEAK_TOKEN "\n") &&
           write_file(s, "tokens.csv",
                      FAKE_KUBERNETES_TOKEN ",admin,1,\"system:masters\"\n" FAKE_KUBERNETES_WEAK_TOKEN ",weak,2\n");
}

static bool is_yes(const server *s, const char *script)
{
    char command[512];
    snprintf(command, sizeof command,
             "cd %s && get() { curl -sf -m 5 --cacert ca.pem -H 'Authorization: Bearer " FAKE_KUBERNETES_TOKEN
             "' https://localhost:%d/$1; } && { %s; } >/dev/null 2>&1",
             s->folder, s->port, script);
    return system(command) == 0; // NOLINT(cert-env33-c): words of our own
}

/* The namespace "default" comes a moment after the server says that it is ready. */
static bool is_ready(const server *s)
{
    return is_yes(s, "get readyz && get api/v1/namespaces/default");
}

static bool is_written_to(const server *s)
{
    char command[256];
    snprintf(command, sizeof command,
             "for i in 1 2 3; do curl -sf -m 5 -d '{\"key\":\"eA==\",\"value\":\"eA==\"}' "
             "http://127.0.0.1:%d/v3/kv/put || exit; done >/dev/null",
             s->port);
    return system(command) == 0; // NOLINT(cert-env33-c): words of our own
}

static bool start_etcd(server *s)
{
    static char data[96], client[64], peer[64];
    snprintf(data, sizeof data, "%s/etcd", s->folder);
    snprintf(client, sizeof client, "http://127.0.0.1:%d", s->port);
    snprintf(peer, sizeof peer, "http://127.0.0.1:%d", server_keep_port(s));
    const char *const words[] = {
        "etcd", "--data-dir",         data, "--listen-client-urls", client, "--advertise-client-urls",
        client, "--listen-peer-urls", peer, "--unsafe-no-fsync",    NULL};
    memcpy(s->argv, words, sizeof words);
    /* The API server is to come late, so that there are versions that are too old for a watch. */
    return server_start(s) && server_await(s, is_written_to);
}

bool server_start_kube_apiserver(server *s)
{
    static char words[12][128];
    static char program[256];
    server *etcd = server_add(s);
    char command[512];
    snprintf(command, sizeof command,
             "cd %s && openssl genrsa -out sa.key 2048 2>/dev/null && openssl rsa -in sa.key -pubout -out sa.pub "
             "2>/dev/null && "
             "chmod a+r *.key *.pem sa.pub",
             s->folder);
    if (!getenv("SIMBA_KUBERNETES") || !write_credentials(s) ||
        system(command) != 0 || // NOLINT(cert-env33-c): words of our own
        !start_etcd(etcd))
        return false;
    snprintf(program, sizeof program, "%s/kube-apiserver", getenv("SIMBA_KUBERNETES"));
    snprintf(words[0], sizeof *words, "--etcd-servers=http://127.0.0.1:%d", etcd->port);
    snprintf(words[1], sizeof *words, "--secure-port=%d", s->port);
    snprintf(words[2], sizeof *words, "--cert-dir=%s/certs", s->folder);
    snprintf(words[3], sizeof *words, "--tls-cert-file=%s/cert.pem", s->folder);
    snprintf(words[4], sizeof *words, "--tls-private-key-file=%s/key.pem", s->folder);
    snprintf(words[5], sizeof *words, "--token-auth-file=%s/tokens.csv", s->folder);
    snprintf(words[6], sizeof *words, "--service-account-key-file=%s/sa.pub", s->folder);
    snprintf(words[7], sizeof *words, "--service-account-signing-key-file=%s/sa.key", s->folder);
    size_t n = 0;
    s->argv[n++] = program;
    for (size_t i = 0; *words[i]; i++)
        s->argv[n++] = words[i];
    const char *const more[] = {"--bind-address=127.0.0.1",
                                "--authorization-mode=RBAC",
                                "--service-cluster-ip-range=10.0.0.0/24",
                                "--disable-admission-plugins=ServiceAccount",
                                "--service-account-issuer=https://127.0.0.1",
                                NULL};
    memcpy(s->argv + n, more, sizeof more);
    return server_start(s) && server_await(s, is_ready);
}

/* It lives in this process, and ends with it. */
static bool start_fake(server *s)
{
    static fake_kubernetes fake;
    if (!write_credentials(s))
        return false;
    fake_kubernetes_start(&fake, s->port, s->folder);
    return true;
}

const server_kind server_kind_kubernetes = {"kubernetes", "openssl", start_fake};
const server_kind server_kind_kube_apiserver = {"kube-apiserver", "\"$SIMBA_KUBERNETES\"/kube-apiserver",
                                                server_start_kube_apiserver};
