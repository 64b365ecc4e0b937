/* See tls.h. */
#include "backends/redis/tls.h"

#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "util/error.h"
#include "util/mem.h"

struct redis_tls_context {
    SSL_CTX *ssl;
};

struct redis_tls {
    SSL *ssl;
    BIO *in, *out; /* belong to ssl */
};

static const char *reason(void)
{
    const unsigned long code = ERR_get_error();
    const char *text = code ? ERR_reason_error_string(code) : NULL;
    ERR_clear_error();
    return text ? text : "unknown error";
}

static int load_files(SSL_CTX *ssl, const redis_options *options, simba_error *err)
{
    if (options->ca && SSL_CTX_load_verify_file(ssl, options->ca) != 1)
        return simba__fail(err, SIMBA_EURL, "the CA file %.100s cannot be used: %s", options->ca, reason());
    if (!options->ca && SSL_CTX_set_default_verify_paths(ssl) != 1)
        return simba__fail(err, SIMBA_EURL, "the system's CA files cannot be used: %s", reason());
    if (options->cert && SSL_CTX_use_certificate_chain_file(ssl, options->cert) != 1)
        return simba__fail(err, SIMBA_EURL, "the certificate %.100s cannot be used: %s", options->cert, reason());
    if (options->key && SSL_CTX_use_PrivateKey_file(ssl, options->key, SSL_FILETYPE_PEM) != 1)
        return simba__fail(err, SIMBA_EURL, "the key %.100s cannot be used: %s", options->key, reason());
    if (options->key && SSL_CTX_check_private_key(ssl) != 1)
        return simba__fail(err, SIMBA_EURL, "the key %.100s does not belong to the certificate", options->key);
    return 0;
}

int simba__redis_tls_context_new(const redis_options *options, simba_error *err, redis_tls_context **ret_context)
{
    redis_tls_context *context = simba__calloc(1, sizeof *context);
    if (!context)
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    context->ssl = SSL_CTX_new(TLS_client_method());
    int rc = context->ssl ? 0 : simba__fail(err, SIMBA_ENOMEM, "cannot set up TLS: %s", reason());
    if (rc == 0) {
        SSL_CTX_set_min_proto_version(context->ssl, TLS1_2_VERSION);
        SSL_CTX_set_verify(context->ssl, options->verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
        rc = load_files(context->ssl, options, err);
    }
    if (rc < 0) {
        simba__redis_tls_context_free(context);
        return rc;
    }
    *ret_context = context;
    return 0;
}

void simba__redis_tls_context_free(redis_tls_context *context)
{
    if (!context)
        return;
    SSL_CTX_free(context->ssl);
    simba__free(context);
}

/* The certificate has to be for the host that was asked for, which may be an address. */
static bool expect_host(SSL *ssl, const char *host)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (X509_VERIFY_PARAM_set1_ip_asc(param, host) == 1)
        return true;
    ERR_clear_error();
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

redis_tls *simba__redis_tls_new(redis_tls_context *context, const char *host)
{
    redis_tls *tls = simba__calloc(1, sizeof *tls);
    if (!tls)
        return NULL;
    tls->ssl = SSL_new(context->ssl);
    tls->in = BIO_new(BIO_s_mem());
    tls->out = BIO_new(BIO_s_mem());
    if (!tls->ssl || !tls->in || !tls->out) {
        BIO_free(tls->in);
        BIO_free(tls->out);
        SSL_free(tls->ssl);
        simba__free(tls);
        ERR_clear_error();
        return NULL;
    }
    SSL_set_bio(tls->ssl, tls->in, tls->out);
    SSL_set_connect_state(tls->ssl);
    if (!expect_host(tls->ssl, host)) {
        simba__redis_tls_free(tls);
        return NULL;
    }
    return tls;
}

void simba__redis_tls_free(redis_tls *tls)
{
    if (!tls)
        return;
    SSL_free(tls->ssl);
    simba__free(tls);
}

bool simba__redis_tls_feed(redis_tls *tls, const char *data, size_t length)
{
    return BIO_write(tls->in, data, (int)length) == (int)length;
}

static bool wants_more(const redis_tls *tls, int result)
{
    const int error = SSL_get_error(tls->ssl, result);
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
}

int simba__redis_tls_handshake(redis_tls *tls, const char **ret_why)
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

int simba__redis_tls_read(redis_tls *tls, char *out, size_t size)
{
    ERR_clear_error();
    const int result = SSL_read(tls->ssl, out, size > INT_MAX ? INT_MAX : (int)size);
    if (result > 0)
        return result;
    const bool more = wants_more(tls, result);
    ERR_clear_error();
    return more ? 0 : -1;
}

bool simba__redis_tls_write(redis_tls *tls, const char *data, size_t length)
{
    size_t written = 0;
    ERR_clear_error();
    return SSL_write_ex(tls->ssl, data, length, &written) == 1 && written == length;
}

void simba__redis_tls_take(redis_tls *tls, redis_buffer *wire)
{
    char *data = NULL;
    const long length = BIO_get_mem_data(tls->out, &data);
    if (length > 0)
        simba__redis_put_bytes(wire, data, (size_t)length);
    (void)BIO_reset(tls->out);
}
