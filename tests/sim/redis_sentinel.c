/* Model sentinels: each says who it believes to be the master, and tells those that listen when it hears of another. */
#include <stdlib.h>
#include <string.h>

#include "sim/redis_model.h"

bool sentinel_is(const sim *s, unsigned server)
{
    return s->plan->topology == SIM_SENTINEL && server < SIM_SENTINELS;
}

/* SENTINEL get-master-addr-by-name NAME */
void sentinel_answer(const sim_server *sentinel, int argc, const char *const *argv, sim_answer *ret_answer)
{
    char host[16];
    if (argc != 3 || strcmp(argv[1], "get-master-addr-by-name") != 0 || strcmp(argv[2], "main") != 0)
        abort();
    snprintf(host, sizeof host, "10.0.0.%u", sentinel->view.master[0] + 1U);
    answer_add(ret_answer, host);
    answer_add(ret_answer, "6379");
}

void sentinel_tell(sim_server *sentinel, unsigned former, unsigned master)
{
    char text[64];
    snprintf(text, sizeof text, "main 10.0.0.%u 6379 10.0.0.%u 6379", former + 1, master + 1);
    server_publish(sentinel, "+switch-master", text);
}
