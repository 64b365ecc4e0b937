/* See library.h. */
#include "stores/mysql/library.h"

#include <mysql.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <time.h>

static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static int library_code;

/* The library starts by itself, but not safely when two threads come at once. It makes the whole process ignore
 * SIGPIPE, which is the program's to decide: we put that back. OpenSSL, which it uses, would shut itself down at
 * exit while a job may be inside it; we ask OpenSSL not to, which works unless the program has used OpenSSL before. */
static void start_library(void)
{
    struct sigaction before;
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
    sigaction(SIGPIPE, NULL, &before);
    library_code = mysql_library_init(0, NULL, NULL);
    sigaction(SIGPIPE, &before, NULL);
}

bool simba__my_library_start(void)
{
    pthread_once(&library_once, start_library);
    return library_code == 0;
}

void simba__my_sigpipe_block(simba__my_sigpipe *sigpipe)
{
    sigset_t pipe, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    sigpipe->was_pending = sigismember(&pending, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &sigpipe->before);
}

void simba__my_sigpipe_restore(const simba__my_sigpipe *sigpipe)
{
    sigset_t pipe;
    const struct timespec at_once = {0};
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    if (!sigpipe->was_pending)
        sigtimedwait(&pipe, NULL, &at_once);
    pthread_sigmask(SIG_SETMASK, &sigpipe->before, NULL);
}
