/* See inputs.h. */
#include "runtime/inputs.h"

#include <assert.h>
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* --- making --------------------------------------------------------------------------------------- */

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    simba__inputs *inputs = poll->data;
    inputs->readable(inputs);
}

static bool watch(int set, int fd, void *data)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = data};
    return epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void close_all(simba__inputs *inputs)
{
    const int fds[] = {inputs->set, inputs->gate, inputs->bell};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static int open_all(simba__inputs *inputs, uv_loop_t *loop)
{
    inputs->set = epoll_create1(EPOLL_CLOEXEC);
    inputs->gate = epoll_create1(EPOLL_CLOEXEC);
    inputs->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = inputs->set >= 0 && inputs->gate >= 0 && inputs->bell >= 0 ? 0 : SIMBA_ESYSTEM;
    if (rc == 0 && (!watch(inputs->set, inputs->bell, NULL) || !watch(inputs->gate, inputs->set, NULL)))
        rc = SIMBA_ESYSTEM;
    if (rc == 0 && uv_poll_init(loop, &inputs->poll, inputs->gate) != 0)
        rc = SIMBA_ESYSTEM;
    if (rc < 0) {
        close_all(inputs);
        return rc;
    }
    inputs->made = inputs->open = inputs->gate_open = true;
    inputs->poll.data = inputs;
    return uv_poll_start(&inputs->poll, UV_READABLE, on_readable) == 0 ? 0 : SIMBA_ESYSTEM;
}

int simba__inputs_add(simba__inputs *inputs, uv_loop_t *loop, simba_input *input)
{
    const int rc = inputs->open ? 0 : open_all(inputs, loop);
    if (rc < 0)
        return rc;
    if (!watch(inputs->set, input->fd, input))
        return errno == ENOMEM ? SIMBA_ENOMEM : SIMBA_ESYSTEM;
    input->next = inputs->first;
    inputs->first = input;
    return 0;
}

static simba_input **find(simba__inputs *inputs, const void *input)
{
    simba_input **link = &inputs->first;
    while (*link && *link != input)
        link = &(*link)->next;
    return link;
}

void simba__inputs_remove(simba__inputs *inputs, simba_input *input)
{
    simba_input **link = find(inputs, input);
    if (!*link)
        return;
    *link = input->next;
    /* Closing it would not do: a process that was forked off has it too. */
    epoll_ctl(inputs->set, EPOLL_CTL_DEL, input->fd, NULL);
}

/* --- reading -------------------------------------------------------------------------------------- */

simba__arrivals simba__inputs_wait(const simba__inputs *inputs, int timeout_ms)
{
    struct epoll_event events[SIMBA__INPUTS_MOST];
    simba__arrivals arrivals = {.count = epoll_wait(inputs->set, events, SIMBA__INPUTS_MOST, timeout_ms)};
    for (int i = 0; i < arrivals.count; i++)
        arrivals.inputs[i] = events[i].data.ptr;
    return arrivals;
}

/* An input may have been removed since, and be gone: what is not in the list is not looked at. */
static void take(simba__inputs *inputs, const simba__arrivals *arrivals)
{
    for (int i = 0; i < arrivals->count; i++) {
        simba_input *input = *find(inputs, arrivals->inputs[i]);
        if (input)
            input->ready(input);
    }
}

void simba__inputs_take(simba__inputs *inputs)
{
    if (!inputs->first)
        return;
    const simba__arrivals arrivals = simba__inputs_wait(inputs, 0);
    take(inputs, &arrivals);
}

static void set_gate(simba__inputs *inputs, bool is_open)
{
    struct epoll_event event = {.events = is_open ? EPOLLIN : 0};
    const int rc = epoll_ctl(inputs->gate, EPOLL_CTL_MOD, inputs->set, &event);
    assert(rc == 0);
    (void)rc;
    inputs->gate_open = is_open;
}

bool simba__inputs_claim(simba__inputs *inputs)
{
    if (!inputs->first || inputs->awaited)
        return false;
    if (inputs->gate_open)
        set_gate(inputs, false);
    return true;
}

bool simba__inputs_are_read(const simba__inputs *inputs)
{
    return inputs->awaited != NULL;
}

void simba__inputs_begin(simba__inputs *inputs, const pthread_cond_t *cond)
{
    assert(!inputs->awaited && !inputs->gate_open);
    inputs->awaited = cond;
}

void simba__inputs_end(simba__inputs *inputs, const simba__arrivals *arrivals)
{
    uint64_t count;
    inputs->awaited = NULL;
    if (inputs->rung)
        (void)!read(inputs->bell, &count, sizeof count);
    inputs->rung = false;
    take(inputs, arrivals);
}

void simba__inputs_ring(simba__inputs *inputs, const pthread_cond_t *cond)
{
    if (inputs->awaited != cond || inputs->rung)
        return;
    inputs->rung = true;
    (void)!write(inputs->bell, &(uint64_t){1}, sizeof(uint64_t));
}

void simba__inputs_mind(simba__inputs *inputs)
{
    if (inputs->open && !inputs->gate_open && !inputs->awaited)
        set_gate(inputs, true);
}

/* --- ending --------------------------------------------------------------------------------------- */

void simba__inputs_close(simba__inputs *inputs)
{
    if (inputs->open)
        uv_close((uv_handle_t *)&inputs->poll, NULL);
    inputs->open = false;
}

void simba__inputs_fini(simba__inputs *inputs)
{
    if (inputs->made)
        close_all(inputs);
    inputs->made = false;
}
