/* See client.h. */
#include "runtime/client.h"

#include <assert.h>
#include <string.h>

#include "util/error.h"
#include "util/mem.h"
#include "util/sized.h"
#include "util/text.h"
#include "util/url.h"

static simba_client *of_turn(simba__turn *turn)
{
    return (simba_client *)(void *)((char *)turn - offsetof(simba_client, turn));
}

/* --- fork ------------------------------------------------------------------------------------------ */

static _Atomic unsigned fork_generation;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void forked(void)
{
    atomic_fetch_add(&fork_generation, 1);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forked);
}

int simba__client_forked(const simba_client *client, simba_error *err)
{
    if (client->fork_generation == atomic_load_explicit(&fork_generation, memory_order_relaxed))
        return 0;
    return simba__fail(err, SIMBA_EFORKED, "this client belongs to the parent process; open another one here");
}

int simba__client_enter(simba_client *client, simba_error *err)
{
    const int rc = simba__client_forked(client, err);
    if (rc == 0)
        simba__enter_in_line(&client->turn);
    return rc;
}

int simba__client_enter_open(simba_client *client)
{
    const int rc = simba__client_enter(client, NULL);
    if (rc < 0 || !client->closed)
        return rc;
    simba__leave(&client->turn);
    return SIMBA_ECLOSED;
}

int simba__client_check_mutex(const simba_client *client, const char *mutex, simba_error *err)
{
    const int rc = simba__check_mutex(mutex, err);
    if (rc < 0 || !client->backend->accepts)
        return rc;
    return client->backend->accepts(client->url, mutex, err);
}

/* --- turns ---------------------------------------------------------------------------------------- */

static void look_at_answer(simba_client *client)
{
    simba_request *request = simba__requests_take(&client->requests);
    request->done(request);
}

/* Hand all submitted requests to the store in one flush. */
static bool send_outbox(simba_client *client)
{
    if (!client->requests.outbox_first)
        return false;
    client->stats.requests += simba__requests_hand_over(&client->requests, client->turn.now);
    client->stats.batches++;
    client->backend->flush(client->store);
    simba__requests_arm(&client->requests);
    return true;
}

static bool wants_store(simba_client *client)
{
    return !client->turn.puts_off &&
           (client->topics.dirty || client->requests.outbox_first || atomic_load(&client->wake_wanted)) &&
           !client->store_closed;
}

static void deal_with_store(simba_client *client)
{
    if (client->topics.dirty)
        simba__topics_settle(&client->topics, client->backend, client->store);
    else if (!send_outbox(client) && atomic_exchange(&client->wake_wanted, false))
        client->backend->woken(client->store);
}

/* Until nothing is left to do: an answer may lead to a request, which a store in this process answers at once. */
static bool settle(simba__turn *turn)
{
    simba_client *client = of_turn(turn);
    assert(!client->settling);
    client->settling = true;
    bool any = false;
    for (;; any = true) {
        if (client->requests.completed_first)
            look_at_answer(client);
        else if (wants_store(client))
            deal_with_store(client);
        else
            break;
    }
    client->settling = false;
    return any;
}

static bool hand_over(simba__turn *turn)
{
    return simba__dispatcher_hand_over(&of_turn(turn)->dispatcher);
}

static void leave(simba__turn *turn)
{
    simba_client *client = of_turn(turn);
    if (client->closing) /* those who wait are woken below, and nobody would look after what is put off */
        turn->puts_off = false;
    simba__turn_settle(turn);
    /* While the executor has our thread, another may close the client and free the last handle. */
    const bool hands_over = client->options.dispatch == SIMBA_DISPATCH_EXECUTOR;
    if (hands_over)
        atomic_fetch_add(&client->refs, 1);
    hand_over(turn);
    if (client->closing) /* the thread that closes the client waits for us, if we led */
        simba__condition_wake(&turn->changed, &turn->wakeups, false);
    simba__list dead = client->dispatcher.dead;
    client->dispatcher.dead = (simba__list){0};
    simba__turn_end(turn);
    simba__strands_destroy(&dead);
    if (hands_over)
        simba__client_unref(client);
}

static const simba__turn_hooks hooks = {settle, hand_over, leave};

/* --- lifetime ------------------------------------------------------------------------------------- */

int simba__client_new(const simba_client_options *options, simba_error *err, simba_client **ret_client)
{
    simba_client *client = simba__calloc(1, sizeof *client);
    if (!client)
        return simba__fail(err, SIMBA_ENOMEM, "out of memory");
    client->options = *options;
    client->stats.size = sizeof client->stats;
    pthread_once(&fork_once, watch_forks);
    client->fork_generation = atomic_load(&fork_generation);
    client->store_closed = true;
    simba__ring_init(&client->parties);
    simba__slab_init(&client->asked, sizeof(simba__asked));
    atomic_init(&client->refs, 1);
    simba__turn_init(&client->turn, &hooks, &client->options);
    *ret_client = client;
    return 0;
}

void simba__client_unref(simba_client *client)
{
    if (atomic_fetch_sub(&client->refs, 1) != 1)
        return;
    simba__topics_fini(&client->topics);
    simba__slab_fini(&client->asked);
    simba__turn_fini(&client->turn);
    simba_url_free(client->url);
    simba__free(client);
}

/* --- the application's loop ----------------------------------------------------------------------- */

static int check_loop(const simba_client *client)
{
    if (!client)
        return SIMBA_EINVAL;
    const int rc = simba__client_forked(client, NULL);
    return rc < 0 || client->options.dispatch == SIMBA_DISPATCH_FD ? rc : SIMBA_ESTATE;
}

int simba_client_fd(simba_client *client)
{
    const int rc = check_loop(client);
    return rc < 0 ? rc : client->turn.reactor.loop.set;
}

int simba_client_dispatch(simba_client *client)
{
    const int rc = check_loop(client);
    if (rc < 0)
        return rc;
    simba__turn *turn = &client->turn;
    simba__enter(turn);
    const simba__arrivals arrivals = simba__reactor_wait(&turn->reactor, &turn->reactor.loop, 0);
    if (arrivals.bell && client->dispatcher.queued.count == 0)
        simba__waitset_hush(&turn->reactor.loop); /* the cause of the ringing is settled below */
    simba__turn_take(turn, &arrivals);
    simba__turn_settle(turn);
    const unsigned ran = simba__dispatcher_run(&client->dispatcher);
    simba__leave(turn);
    return (int)ran;
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
    const int rc = simba__client_enter(client, NULL);
    if (rc < 0)
        return rc;
    simba_stats stats = client->stats;
    stats.callbacks = client->dispatcher.callbacks;
    stats.callback_threads = client->dispatcher.threads.count;
    stats.suspends = client->turn.suspends;
    stats.max_lag_ns = client->turn.max_lag_ns;
    simba__leave(&client->turn);
    return simba__sized_tell(ret_stats, &stats);
}

const char *simba_version(void)
{
#define STRING_(x) #x
#define STRING(x) STRING_(x)
    return STRING(SIMBA_VERSION_MAJOR) "." STRING(SIMBA_VERSION_MINOR) "." STRING(SIMBA_VERSION_PATCH);
}
