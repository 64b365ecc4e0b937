/* Opens and closes a client: the one place that knows in which order its parts begin and end. */

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/handles.h"
#include "stores/registry.h"
#include "util/clock.h"
#include "util/descriptors.h"
#include "util/error.h"
#include "util/mem.h"
#include "util/sized.h"
#include "util/text.h"
#include "util/url.h"

int simba__client_check_mutex(const simba_client *client, const char *mutex, simba_error *err)
{
    const int rc = simba__check_mutex(mutex, err);
    if (rc < 0 || !client->backend->accepts)
        return rc;
    return client->backend->accepts(client->url, mutex, err);
}

/* --- settings ------------------------------------------------------------------------------------- */

static const char *const common_keys[] = {"ttl", "transition", "initial-delay", "stop-margin", "hold-limit", NULL};

/* The program's settings override the URL's, and these the defaults; program and URL may not disagree. */
static int resolve_timing(simba_client *client, simba_error *err)
{
    simba_timing *ms = &client->options.timing;
    const simba_timing without_url = *ms;
    int64_t *const fields[] = {&ms->ttl_ms, &ms->transition_ms, &ms->initial_delay_ms, &ms->stop_margin_ms,
                               &ms->hold_limit_ms};
    const bool session = client->backend->caps & SIMBA_CAP_SESSION;
    for (size_t i = 0; common_keys[i]; i++) {
        int64_t from_url = SIMBA_INHERIT;
        const int rc = simba__url_duration(client->url, common_keys[i], &from_url, err);
        if (rc < 0)
            return rc;
        if (from_url != SIMBA_INHERIT && *fields[i] != SIMBA_INHERIT && *fields[i] != from_url)
            return simba__fail(err, SIMBA_EURL, "%s is %lld ms in the URL and %lld ms in the client's options",
                               common_keys[i], (long long)from_url, (long long)*fields[i]);
        if (from_url != SIMBA_INHERIT)
            *fields[i] = from_url;
        if (session && i < 2 && *fields[i] != SIMBA_INHERIT)
            return simba__fail(err, SIMBA_EURL, "%s does not apply to %s://, whose leases are sessions", common_keys[i],
                               simba_url_scheme(client->url));
    }
    simba_timing merged = simba__timing_inherit(ms, &simba__timing_defaults);
    int rc = simba__timing_resolve(&merged, client->options.drift_ppm, client->options.op_timeout_ms, session, err,
                                   &client->timing);
    if (rc == 0)
        return 0;
    merged = simba__timing_inherit(&without_url, &simba__timing_defaults);
    if (simba__timing_resolve(&merged, client->options.drift_ppm, client->options.op_timeout_ms, session, NULL,
                              &client->timing) == 0) {
        /* The options alone would be valid. */
        rc = SIMBA_EURL;
        if (err)
            err->code = rc;
    }
    return rc;
}

static int check_options(const simba_client_options *options, simba_error *err)
{
    if ((unsigned)options->dispatch > SIMBA_DISPATCH_EXECUTOR)
        return simba__fail(err, SIMBA_EINVAL, "dispatch is %d, which is none of SIMBA_DISPATCH_…",
                           (int)options->dispatch);
    if ((options->dispatch == SIMBA_DISPATCH_EXECUTOR) != (options->executor != NULL))
        return simba__fail(err, SIMBA_EINVAL, "executor and SIMBA_DISPATCH_EXECUTOR go together");
    if (options->max_callback_threads == 0)
        return simba__fail(err, SIMBA_EINVAL, "max_callback_threads is 0; at least one is needed");
    if ((unsigned)options->log_level > SIMBA_LOG_EVENT)
        return simba__fail(err, SIMBA_EINVAL, "log_level is %d, which is none of SIMBA_LOG_…", (int)options->log_level);
    return 0;
}

/* Make the missing folders on the way to this file, for this user alone. 0, or the errno of the first that could not be made. */
static int make_folders(const char *path)
{
    char part[PATH_MAX];
    const size_t length = strlen(path);
    if (length >= sizeof part)
        return ENAMETOOLONG;
    memcpy(part, path, length + 1);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0700) != 0 && errno != EEXIST)
            return errno;
        *slash = '/';
    }
    return 0;
}

/* This user's embedded store. */
static int default_url(char *out, size_t size, simba_error *err)
{
    char path[2048];
    const char *state = secure_getenv("XDG_STATE_HOME");
    const char *home = secure_getenv("HOME");
    int length;
    if (state && state[0] == '/')
        length = snprintf(path, sizeof path, "%s/simba/simba.db", state);
    else if (geteuid() == 0)
        length = snprintf(path, sizeof path, "/var/lib/simba/simba.db");
    else if (home && home[0] == '/')
        length = snprintf(path, sizeof path, "%s/.local/state/simba/simba.db", home);
    else
        return simba__fail(err, SIMBA_EURL,
                           "no store URL was given, and neither XDG_STATE_HOME nor HOME says where the embedded one "
                           "should be");
    if ((size_t)length >= sizeof path || !simba__url_of_path("sqlite", path, out, size))
        return simba__fail(err, SIMBA_EURL, "the path of the embedded store is too long");
    const int number = make_folders(path);
    if (number == 0)
        return 0;
    char text[128];
    const bool refused = number == EACCES || number == EPERM || number == EROFS;
    return simba__fail(err, refused ? SIMBA_EPERM : SIMBA_ESYSTEM,
                       "the folders of the embedded store, %s, cannot be made: %s", path,
                       strerror_r(number, text, sizeof text));
}

static int parse_url(simba_client *client, const char *text, simba_error *err)
{
    char fallback[4096];
    if (!text)
        text = secure_getenv("SIMBA_URL");
    if (!text) {
        const int rc = default_url(fallback, sizeof fallback, err);
        if (rc < 0)
            return rc;
        text = fallback;
    }
    int rc = simba_url_parse(text, err, &client->url);
    if (rc < 0)
        return rc;
    rc = simba__registry_find(simba_url_scheme(client->url), err, &client->backend);
    if (rc < 0)
        return rc;
    return simba__url_check_keys(client->url, common_keys, client->backend->keys, err);
}

/* --- opening -------------------------------------------------------------------------------------- */

static simba_client *make(const simba_client_options *options)
{
    simba_client *client = simba__calloc(1, sizeof *client);
    if (!client || pthread_mutex_init(&client->lock, NULL) != 0 || pthread_mutex_init(&client->door, NULL) != 0) {
        simba__free(client);
        return NULL;
    }
    simba__loop_watch_forks(client);
    client->options = *options;
    client->stats.size = sizeof client->stats;
    client->boot_minus_mono_ns = simba__clock_boot().ns - simba__clock_mono_ns();
    client->store_closed = true;
    atomic_init(&client->refs, 1);
    return client;
}

void simba__client_unref(simba_client *client)
{
    if (atomic_fetch_sub(&client->refs, 1) != 1)
        return;
    simba__watches_fini(&client->watches);
    simba__timers_fini(&client->timers);
    pthread_mutex_destroy(&client->door);
    pthread_mutex_destroy(&client->lock);
    simba_url_free(client->url);
    simba__free(client);
}

static int open_store(simba_client *client, const char *url, simba_error *err)
{
    if (!simba__descriptors_hold())
        return simba__fail(err, SIMBA_ESYSTEM,
                           "one of the descriptors 0 to 2 is closed, and nothing can be put there: error %d", errno);
    int rc = parse_url(client, url, err);
    if (rc == 0)
        rc = resolve_timing(client, err);
    if (rc == 0)
        rc = simba__reactor_init(&client->reactor, client->options.dispatch == SIMBA_DISPATCH_FD, err);
    if (rc < 0)
        return rc;
    void *store = simba__host_init(client) == 0 ? simba__calloc(1, client->backend->instance_size) : NULL;
    if (!store ||
        simba__window_init(&client->window, &client->host, client->backend, store, client->timing.op_timeout_ns) < 0) {
        simba__free(store);
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    }
    client->store = store; /* from here on only `fini` ends it */
    rc = client->backend->init(client->store, &client->host, client->url, err);
    if (rc < 0 || !client->timing.session)
        return rc;
    atomic_store(&client->session_ms, client->backend->session_ms(client->store));
    return simba__timing_check_session(&client->timing, atomic_load(&client->session_ms), err);
}

static void close_store(simba_client *client)
{
    simba__lock(client);
    simba__watches_settle(&client->watches, client->backend, client->store);
    client->backend->close(client->store);
    while (!client->store_closed)
        simba__wait(client, client, SIMBA__NEVER);
    simba__window_close(&client->window);
    simba__unlock(client);
}

static void tear_down(simba_client *client)
{
    simba__callbacks_stop(client);
    simba__jobs_stop(client);
    simba__loop_stop(client);
    if (client->store) {
        client->backend->fini(client->store);
        simba__free(client->store);
        client->store = NULL;
    }
    simba__reactor_fini(&client->reactor);
}

int simba_client_open(const char *url, const simba_client_options *options, simba_error *err, simba_client **ret_client)
{
    if (!ret_client)
        return simba__fail(err, SIMBA_EINVAL, "ret_client is NULL");
    simba_client_options own = SIMBA_CLIENT_OPTIONS_INIT;
    int rc = simba__sized_take("simba_client_options", options, &own, err);
    if (rc == 0)
        rc = check_options(&own, err);
    if (rc < 0)
        return rc;
    simba_client *client = make(&own);
    if (!client)
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    rc = open_store(client, url, err);
    if (rc == 0) {
        client->store_closed = false; /* from here on it must be closed before anything else is freed */
        rc = simba__jobs_start(client, client->host.workers, err);
        if (rc == 0)
            rc = simba__callbacks_start(client, err);
        if (rc == 0 && client->options.dispatch != SIMBA_DISPATCH_FD)
            rc = simba__loop_start(client, err);
        if (rc < 0)
            close_store(client);
    }
    if (rc < 0) {
        tear_down(client);
        simba__client_unref(client);
        return rc;
    }
    *ret_client = client;
    return 0;
}

/* --- closing -------------------------------------------------------------------------------------- */

/* Under the lock. Runs the callbacks of every handle, because this thread may be the one that is to run them. */
static void stop_handles(simba_client *client)
{
    for (simba__list_item *item = client->handles.first; item; item = item->next)
        simba__handle_send_stop(SIMBA__OF_ITEM(item, simba__handle, of_client));
    for (;;) {
        bool helped = false;
        bool busy = client->running > 0 || client->calls > 0 || client->polled_for;
        for (simba__list_item *item = client->handles.first; item && !helped; item = item->next) {
            simba__handle *handle = SIMBA__OF_ITEM(item, simba__handle, of_client);
            busy |= handle->callback_state != SIMBA__CALLBACKS_IDLE;
            helped = simba__callbacks_help(handle);
        }
        if (!busy)
            return;
        if (!helped)
            simba__wait(client, client, SIMBA__NEVER);
    }
}

int simba_client_close(simba_client *client)
{
    if (!client)
        return 0;
    const int rc = simba__client_forked(client, NULL);
    if (rc < 0)
        return rc;
    if (simba__callbacks_are_inside(client, NULL))
        return SIMBA_ESTATE;
    simba__lock(client);
    if (client->closing) {
        simba__unlock(client);
        return SIMBA_ESTATE;
    }
    client->closing = true;
    stop_handles(client);
    client->closed = true;
    simba__watches_end(&client->watches);
    simba__unlock(client);

    simba__callbacks_stop(client);
    close_store(client);
    tear_down(client);
    simba__client_unref(client);
    return 0;
}

/* --- looking -------------------------------------------------------------------------------------- */

const char *simba_client_url(const simba_client *client)
{
    return client ? simba_url_shown(client->url) : NULL;
}

int simba_client_settings(const simba_client *client, simba_settings *ret_settings)
{
    if (!client || !ret_settings)
        return SIMBA_EINVAL;
    const int rc = simba__client_forked(client, NULL);
    if (rc < 0)
        return rc;
    const bool granted = client->timing.session && atomic_load(&client->session_until_ns) != 0;
    const int64_t session_ms = client->timing.session ? atomic_load(&client->session_ms) : 0;
    simba_settings settings;
    memset(&settings, 0, sizeof settings); /* the program also gets the padding between the members */
    settings.size = sizeof settings;
    settings.timing = client->timing.ms;
    settings.session_ms = session_ms;
    settings.session_granted = granted;
    settings.longest_margin_ms = simba__longest_margin_ms(&client->timing, session_ms);
    settings.reach = client->backend->caps & SIMBA_CAP_PROCESS_ONLY ? SIMBA_REACH_PROCESS
                     : client->backend->caps & SIMBA_CAP_HOST_ONLY  ? SIMBA_REACH_HOST
                                                                    : SIMBA_REACH_NETWORK;
    return simba__sized_tell(ret_settings, &settings);
}

int simba_client_stats(simba_client *client, simba_stats *ret_stats)
{
    if (!client || !ret_stats)
        return SIMBA_EINVAL;
    const int rc = simba__lock_checked(client, false, NULL);
    if (rc < 0)
        return rc;
    simba_stats stats = client->stats;
    stats.requests = client->window.total;
    stats.callback_threads = client->callbacks.threads.count;
    simba__unlock(client);
    return simba__sized_tell(ret_stats, &stats);
}

const char *simba_version(void)
{
#define STRING_(x) #x
#define STRING(x) STRING_(x)
    return STRING(SIMBA_VERSION_MAJOR) "." STRING(SIMBA_VERSION_MINOR) "." STRING(SIMBA_VERSION_PATCH);
}
