/* See tls.h. */
#include "net/tls.h"

#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "util/error.h"
#include "util/mem.h"
#include "util/url.h"

/* A struct that can no longer be freed begins with this. */
typedef struct rest {
    struct rest *next;
} rest;

struct simba__tls_context {
    rest rest;
    SSL_CTX *ssl;
};

struct simba__tls {
    rest rest;
    SSL *ssl;
    BIO *in, *out; /* belong to ssl */
};

/* --- the end of the process -------------------------------------------------------------------------- */

/* At exit OpenSSL shuts itself down, although threads of ours may be inside it. So `shut` waits for those, and lets
 * no others in; for them the connection is over. What they would free stays in a list, so that leak checkers find
 * it. */
static atomic_uint inside;
static atomic_bool over;
static _Atomic(rest *) kept;

static bool begin(void)
{
    atomic_fetch_add(&inside, 1);
    if (!atomic_load(&over))
        return true;
    atomic_fetch_sub(&inside, 1);
    return false;
}

static void end(void)
{
    atomic_fetch_sub(&inside, 1);
}

/* May it be freed? Then `end` follows. Otherwise it is kept. */
static bool begin_to_free(rest *what)
{
    const bool may = begin();
    if (!may)
        what->next = atomic_exchange(&kept, what);
    return may;
}

static void shut(void)
{
    atomic_store(&over, true);
    while (atomic_load(&inside) > 0)
        sched_yield(); /* nobody waits for anything in there */
}

static void forked(void)
{
    atomic_store(&inside, 0); /* those were threads of the parent */
}

static void watch_end(void)
{
    OPENSSL_atexit(shut);
    pthread_atfork(NULL, NULL, forked);
}

/* --- contexts ---------------------------------------------------------------------------------------- */

static const char *reason(void)
{
    const unsigned long code = ERR_get_error();
    const char *text = code ? ERR_reason_error_string(code) : NULL;
    ERR_clear_error();
    return text ? text : "unknown error";
}

static int load_files(SSL_CTX *ssl, const simba__tls_files *files, simba_error *err)
{
    if (files->ca && SSL_CTX_load_verify_file(ssl, files->ca) != 1)
        return simba__fail(err, SIMBA_EURL, "the CA file %.100s cannot be used: %s", files->ca, reason());
    if (!files->ca && SSL_CTX_set_default_verify_paths(ssl) != 1)
        return simba__fail(err, SIMBA_EURL, "the system's CA files cannot be used: %s", reason());
    if (files->cert && SSL_CTX_use_certificate_chain_file(ssl, files->cert) != 1)
        return simba__fail(err, SIMBA_EURL, "the certificate %.100s cannot be used: %s", files->cert, reason());
    if (files->key && SSL_CTX_use_PrivateKey_file(ssl, files->key, SSL_FILETYPE_PEM) != 1)
        return simba__fail(err, SIMBA_EURL, "the key %.100s cannot be used: %s", files->key, reason());
    if (files->key && SSL_CTX_check_private_key(ssl) != 1)
        return simba__fail(err, SIMBA_EURL, "the key %.100s does not belong to the certificate", files->key);
    return 0;
}

static int set_up(simba__tls_context *context, const simba__tls_files *files, simba_error *err)
{
    context->ssl = SSL_CTX_new(TLS_client_method());
    if (!context->ssl)
        return simba__fail(err, SIMBA_ENOMEM, "cannot set up TLS: %s", reason());
    SSL_CTX_set_min_proto_version(context->ssl, TLS1_2_VERSION);
    SSL_CTX_set_verify(context->ssl, files->verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
    return load_files(context->ssl, files, err);
}

int simba__tls_files_of_url(const simba_url *url, const char *with_tls, simba__tls_files *ret_files, simba_error *err)
{
    simba__tls_files files = {simba_url_query(url, "ca"), simba_url_query(url, "cert"), simba_url_query(url, "key"),
                              true};
    if (with_tls && (files.ca || files.cert || files.key || simba_url_query(url, "verify")))
        return simba__fail(err, SIMBA_EURL, "ca, cert, key and verify are for %s", with_tls);
    if (!files.cert != !files.key)
        return simba__fail(err, SIMBA_EURL, "cert and key go together");
    const int rc = simba__url_flag(url, "verify", &files.verify, err);
    *ret_files = files;
    return rc;
}

int simba__tls_context_new(const simba__tls_files *files, simba_error *err, simba__tls_context **ret_context)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_end);
    simba__tls_context *context = simba__calloc(1, sizeof *context);
    if (!context)
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    int rc = SIMBA_ESYSTEM;
    if (begin()) {
        rc = set_up(context, files, err);
        end();
    } else {
        simba__fail(err, rc, "cannot set up TLS: the process ends");
    }
    if (rc < 0) {
        simba__tls_context_free(context);
        return rc;
    }
    *ret_context = context;
    return 0;
}

void simba__tls_context_free(simba__tls_context *context)
{
    if (!context || !begin_to_free(&context->rest))
        return;
    SSL_CTX_free(context->ssl);
    end();
    simba__free(context);
}

/* --- connections ------------------------------------------------------------------------------------- */

/* The certificate must be for the requested host, which may be an address. */
static bool expect_host(SSL *ssl, const char *host)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (X509_VERIFY_PARAM_set1_ip_asc(param, host) == 1)
        return true;
    ERR_clear_error();
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

static bool connect_bios(simba__tls *tls, const simba__tls_context *context)
{
    tls->ssl = SSL_new(context->ssl);
    tls->in = BIO_new(BIO_s_mem());
    tls->out = BIO_new(BIO_s_mem());
    if (!tls->ssl || !tls->in || !tls->out) {
        BIO_free(tls->in);
        BIO_free(tls->out);
        return false;
    }
    SSL_set_bio(tls->ssl, tls->in, tls->out);
    return true;
}

simba__tls *simba__tls_new(simba__tls_context *context, const char *host)
{
    simba__tls *tls = simba__calloc(1, sizeof *tls);
    if (!tls || !begin()) {
        simba__free(tls);
        return NULL;
    }
    const bool good = connect_bios(tls, context) && expect_host(tls->ssl, host);
    if (good)
        SSL_set_connect_state(tls->ssl);
    else
        ERR_clear_error();
    end();
    if (good)
        return tls;
    simba__tls_free(tls);
    return NULL;
}

void simba__tls_free(simba__tls *tls)
{
    if (!tls || !begin_to_free(&tls->rest))
        return;
    SSL_free(tls->ssl);
    end();
    simba__free(tls);
}

bool simba__tls_feed(simba__tls *tls, const char *data, size_t length)
{
    if (!begin())
        return false;
    const bool fed = BIO_write(tls->in, data, (int)length) == (int)length;
    end();
    return fed;
}

static bool wants_more(const simba__tls *tls, int result)
{
    const int error = SSL_get_error(tls->ssl, result);
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
}

static int shake_hands(simba__tls *tls, const char **ret_why)
{
    ERR_clear_error();
    const int result = SSL_do_handshake(tls->ssl);
    if (result == 1)
        return 1;
    if (wants_more(tls, result))
        return 0;
    const long verified = SSL_get_verify_result(tls->ssl);
    if (verified != X509_V_OK && SSL_get_verify_mode(tls->ssl) != SSL_VERIFY_NONE) {
        *ret_why = X509_verify_cert_error_string(verified);
        ERR_clear_error();
        return SIMBA_EPERM;
    }
    *ret_why = reason();
    return SIMBA_EUNAVAILABLE;
}

int simba__tls_handshake(simba__tls *tls, const char **ret_why)
{
    *ret_why = "the process ends";
    if (!begin())
        return SIMBA_EUNAVAILABLE;
    const int rc = shake_hands(tls, ret_why);
    end();
    return rc;
}

int simba__tls_read(simba__tls *tls, char *out, size_t size)
{
    if (!begin())
        return -1;
    ERR_clear_error();
    int result = SSL_read(tls->ssl, out, size > INT_MAX ? INT_MAX : (int)size);
    if (result <= 0) {
        result = wants_more(tls, result) ? 0 : -1;
        ERR_clear_error();
    }
    end();
    return result;
}

bool simba__tls_write(simba__tls *tls, const char *data, size_t length)
{
    size_t written = 0;
    if (!begin())
        return false;
    ERR_clear_error();
    const bool good = SSL_write_ex(tls->ssl, data, length, &written) == 1 && written == length;
    end();
    return good;
}

void simba__tls_take(simba__tls *tls, simba__buffer *wire)
{
    char *data = NULL;
    if (!begin())
        return;
    const long length = BIO_get_mem_data(tls->out, &data);
    if (length > 0)
        simba__buffer_put(wire, data, (size_t)length);
    (void)BIO_reset(tls->out);
    end();
}
