/* See keeper.h. */
#include "runtime/keeper.h"

#include "util/error.h"
#include "util/thread.h"

/* In a turn. The bell wakes all threads at the reactor. If a thread leads, the bell is for that one, and rings until
 * it has come; until then the keeper cannot wait at the reactor. The timer is kept here as well. */
static void heed_bell(simba__turn *turn)
{
    if (!turn->led_for) {
        simba__waitset_hush(&turn->reactor.threads);
        return;
    }
    if (!turn->reactor.threads.rung) { /* the leading thread may have heard this bell, and have come back since */
        turn->reactor.threads.rung = true;
        simba__waitset_ring(&turn->reactor.threads);
    }
    turn->aside = true;
    while (turn->reactor.threads.rung && turn->led_for)
        if (!simba__turn_wait(turn, &turn->hushed, turn->reactor.armed))
            simba__turn_take(turn, &(simba__arrivals){.timer = true});
    turn->aside = false;
}

static void *keep(void *arg)
{
    simba__keeper *keeper = arg;
    simba__turn *turn = keeper->turn;
    simba__enter(turn);
    while (!keeper->quit) {
        simba__leave(turn);
        const simba__arrivals arrivals = simba__reactor_wait(&turn->reactor, &turn->reactor.threads, -1);
        simba__enter(turn);
        simba__turn_take(turn, &arrivals);
        if (arrivals.bell)
            heed_bell(turn);
    }
    simba__leave(turn);
    return NULL;
}

int simba__keeper_start(simba__keeper *keeper, simba__turn *turn, simba_error *err)
{
    simba__enter(turn); /* others may be in turns already, and check whether there is a keeper */
    keeper->turn = turn;
    turn->kept = simba__thread_create(&keeper->thread, keep, keeper) == 0;
    if (!turn->kept)
        keeper->turn = NULL;
    simba__leave(turn);
    return keeper->turn ? 0 : simba__fail(err, SIMBA_ESYSTEM, "cannot start the client's thread");
}

void simba__keeper_stop(simba__keeper *keeper)
{
    simba__turn *turn = keeper->turn;
    if (!turn)
        return;
    simba__enter(turn);
    keeper->quit = true;
    simba__leave(turn);
    simba__waitset_ring(&turn->reactor.threads);
    pthread_join(keeper->thread, NULL);
    keeper->turn = NULL;
}
