/* See referee.h. */
#include "lib/referee.h"

#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOMENT_MS = 5, COMPLAINTS_SHOWN = 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_uint complaints;
static _Thread_local char scene[160];
static char watched_scene[160]; /* of the test that set the watchdog */

/* --- waiting and complaining ------------------------------------------------------------------------ */

int64_t ref_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t find_scale(void)
{
    const char *given = getenv("SIMBA_TEST_SLOWNESS");
    const int64_t scale = given ? strtoll(given, NULL, 10) : 1;
    return scale > 1 ? scale : 1;
}

int64_t ref_scaled_ms(int64_t ms)
{
    static _Atomic int64_t scale;
    if (atomic_load(&scale) == 0)
        atomic_store(&scale, find_scale());
    return ms * atomic_load(&scale);
}

int64_t ref_outage_ms(int64_t ms)
{
    return ref_scaled_ms(getenv("SIMBA_TEST_OUTAGES") ? ms : 3 * ms);
}

static void make_cond(void)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &attr);
    pthread_condattr_destroy(&attr);
}

void ref_lock(void)
{
    pthread_once(&once, make_cond);
    pthread_mutex_lock(&lock);
}

void ref_unlock(void)
{
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

bool ref_wait(int64_t deadline_ms)
{
    const int64_t now = ref_now_ms();
    if (now >= deadline_ms)
        return false;
    const int64_t until = deadline_ms - now < MOMENT_MS ? deadline_ms : now + MOMENT_MS;
    const struct timespec at = {(time_t)(until / 1000), (long)(until % 1000 * 1000000)};
    pthread_cond_timedwait(&changed, &lock, &at);
    return true;
}

void ref_complain(const char *file, int line, const char *format, ...)
{
    if (atomic_fetch_add(&complaints, 1) >= COMPLAINTS_SHOWN)
        return;
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "%s:%d: %s%s%s\n", file, line, scene, scene[0] ? ": " : "", text);
}

unsigned ref_complaints(void)
{
    return atomic_load(&complaints);
}

void ref_scene(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(scene, sizeof scene, format, args);
    va_end(args);
}

static void bark(int number)
{
    static const char text[] = "\nBail out! nothing moves any more in ";
    (void)!write(STDOUT_FILENO, text, sizeof text - 1);
    (void)!write(STDOUT_FILENO, watched_scene, strlen(watched_scene));
    (void)!write(STDOUT_FILENO, "\n", 1);
    _exit(70);
}

void ref_watchdog(unsigned seconds)
{
    memcpy(watched_scene, scene, sizeof watched_scene);
    signal(SIGALRM, bark);
    alarm((unsigned)ref_scaled_ms(seconds));
}

unsigned ref_entries(const char *directory)
{
    unsigned count = 0;
    DIR *dir = opendir(directory);
    if (!dir)
        return 0;
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

static void delete_file(const char *folder, const char *name)
{
    char path[REF_FOLDER_MAX + 300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
}

void ref_make_folder(char ret_path[REF_FOLDER_MAX])
{
    static const char *const parents[] = {"/dev/shm", "/tmp"};
    for (size_t i = 0; i < sizeof parents / sizeof *parents; i++) {
        snprintf(ret_path, REF_FOLDER_MAX, "%s/simba-test-XXXXXX", parents[i]);
        if (mkdtemp(ret_path))
            return;
    }
    puts("Bail out! no folder can be made");
    exit(70);
}

void ref_delete_folder(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir)
        return;
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        if (entry->d_name[0] != '.')
            delete_file(path, entry->d_name);
    closedir(dir);
    rmdir(path);
}

/* --- judging, with the lock -------------------------------------------------------------------------- */

static bool holds(const ref_contender *contender)
{
    return contender->handle && simba_contender_is_owner(contender->handle);
}

/* No other contender may hold a lease that is valid by its own clock, whatever it has been told so far. */
static void check_leases(const ref_arena *arena, const ref_contender *who)
{
    for (int i = 0; i < REF_CONTENDERS; i++) {
        const ref_contender *other = &arena->contenders[i];
        if (other != who && holds(other))
            REF_COMPLAIN("two valid leases at once: the other one has %" PRId64 " ms left",
                         simba_contender_held_for_ms(other->handle));
    }
}

/* On a busy machine a thread may run long after the event that it reports. So the referee does not go by the order in
 * which threads arrive, but by what the lease of each says at this moment. A contender inside without a valid lease has
 * lost it and was not told yet: it leads no longer. Neither does a contender whose lease ended before it could
 * enter. */
static void enter(ref_arena *arena, ref_contender *who, uint64_t token)
{
    const bool valid = holds(who);
    arena->grants++;
    if (token == arena->last_token || (valid && token < arena->last_token))
        REF_COMPLAIN("token %" PRIu64 " after token %" PRIu64, token, arena->last_token);
    if (!valid)
        return;
    if (!arena->forced && arena->inside && holds(arena->inside))
        REF_COMPLAIN("two lead at once");
    if (!arena->forced)
        check_leases(arena, who);
    arena->inside = who;
    arena->last_token = token;
}

static void leave(ref_arena *arena, const ref_contender *who)
{
    if (arena->inside == who)
        arena->inside = NULL;
}

static void begin(ref_contender *contender)
{
    memcpy(scene, contender->arena->scene, sizeof scene); /* this is a thread of the library */
    if (contender->in_callback)
        REF_COMPLAIN("two callbacks of one contender at once");
    if (contender->stopped)
        REF_COMPLAIN("a callback after stop has returned");
    contender->in_callback = true;
}

/* --- callbacks --------------------------------------------------------------------------------------- */

static void on_acquired(simba_contender *handle, const simba_state *state, void *user)
{
    ref_contender *contender = user;
    ref_lock();
    begin(contender);
    if (contender->leads)
        REF_COMPLAIN("acquired twice without released");
    if (!simba_state_acquired(state, simba_contender_id(handle)))
        REF_COMPLAIN("acquired with a state that does not say so");
    contender->leads = true;
    contender->acquired++;
    contender->token = state->after.token;
    enter(contender->arena, contender, state->after.token);
    contender->in_callback = false;
    ref_unlock();
}

static void on_released(simba_contender *handle, const simba_state *state, simba_reason reason, void *user)
{
    ref_contender *contender = user;
    ref_lock();
    begin(contender);
    if (!contender->leads)
        REF_COMPLAIN("released without acquired");
    if (!simba_state_released(state, simba_contender_id(handle)) || state->before.token != contender->token)
        REF_COMPLAIN("released with a state that does not say so");
    if (reason == SIMBA_REASON_NONE)
        REF_COMPLAIN("released for no reason");
    leave(contender->arena, contender);
    contender->leads = false;
    contender->released++;
    contender->reason = reason;
    contender->in_callback = false;
    ref_unlock();
}

static void on_changed(simba_contender *handle, const simba_state *state, void *user)
{
    ref_contender *contender = user;
    ref_lock();
    begin(contender);
    if (!simba_state_changed(state))
        REF_COMPLAIN("changed, but nothing has");
    contender->in_callback = false;
    ref_unlock();
}

/* --- the fight -------------------------------------------------------------------------------------- */

void ref_arena_init(ref_arena *arena)
{
    memset(arena, 0, sizeof *arena);
    memcpy(arena->scene, scene, sizeof arena->scene);
    for (int i = 0; i < REF_CONTENDERS; i++) {
        arena->contenders[i].arena = arena;
        arena->contenders[i].stopped = true;
    }
}

simba_contender_options ref_options(ref_arena *arena, unsigned nth)
{
    simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    options.on_acquired = on_acquired;
    options.on_released = on_released;
    options.on_changed = on_changed;
    options.user = &arena->contenders[nth];
    return options;
}

int ref_start(ref_contender *contender)
{
    ref_lock();
    contender->stopped = false;
    ref_unlock();
    return simba_contender_start(contender->handle);
}

int ref_stop(ref_contender *contender)
{
    const int rc = simba_contender_stop(contender->handle);
    ref_lock();
    contender->stopped = true;
    if (contender->leads)
        REF_COMPLAIN("stopped, and was not told that it leads no more");
    ref_unlock();
    return rc;
}

void ref_free(ref_contender *contender)
{
    ref_lock();
    simba_contender *handle = contender->handle;
    contender->handle = NULL; /* the referee compares others' leases with it */
    ref_unlock();
    simba_contender_free(handle);
    ref_lock();
    contender->stopped = true;
    ref_unlock();
}

void ref_force(ref_arena *arena)
{
    ref_lock();
    arena->forced = true;
    arena->forced_at = arena->last_token;
    ref_unlock();
}

bool ref_settled(ref_arena *arena)
{
    unsigned leaders = 0;
    for (int i = 0; i < REF_CONTENDERS; i++)
        leaders += arena->contenders[i].leads;
    const bool settled = leaders == 1 && arena->inside && arena->last_token > arena->forced_at;
    if (settled)
        arena->forced = false;
    return settled;
}

void ref_arena_check_end(const ref_arena *arena)
{
    ref_lock();
    for (int i = 0; i < REF_CONTENDERS; i++) {
        const ref_contender *contender = &arena->contenders[i];
        if (contender->leads || contender->acquired != contender->released)
            REF_COMPLAIN("contender %d was told %u gains and %u losses", i, contender->acquired, contender->released);
    }
    ref_unlock();
}
