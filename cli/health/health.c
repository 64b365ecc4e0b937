/* See health.h. */
#include "health/health.h"

#include "health/listener.h"
#include "health/notify.h"
#include "refusal.h"

static struct {
    health_look_fn look; /* NULL: closed */
    void *user;
} health;

static void look(health_view *ret_view)
{
    *ret_view = (health_view){.lease = SIMBA_LEASE_INIT};
    if (health.look != NULL)
        health.look(health.user, ret_view);
    ret_view->refused = ret_view->client != NULL && refusal_is_there(ret_view->client, &ret_view->refusal);
}

int health_open(const char *command, const cli_globals *globals, health_look_fn look_fn, void *user)
{
    health.look = look_fn;
    health.user = user;
    int code = listener_open(command, globals->status_listen, look);
    if (code == CLI_GO)
        code = notify_open(command, globals->notify);
    if (code != CLI_GO)
        health_close();
    return code;
}

void health_close(void)
{
    listener_close();
    notify_close();
    health.look = NULL;
}

int health_fd(void)
{
    return listener_fd();
}

int health_pause_ms(int ms)
{
    const int most_ms = notify_pause_ms();
    return most_ms >= 0 && (ms < 0 || ms > most_ms) ? most_ms : ms;
}

void health_turn(void)
{
    if (health.look == NULL)
        return;
    listener_turn();
    if (notify_is_wanted()) {
        health_view view;
        look(&view);
        notify_tell(&view);
    }
}
