/* What etcd has: each Lease in the form that client-go and simba give it, and who leads by that. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/kube_model.h"

kube_state *kube_state_of(const sim *s)
{
    return s->servers;
}

void kube_key(unsigned mutex, char *out, size_t size)
{
    snprintf(out, size, "leases/default/%s", sim_mutex_name(mutex));
}

/* A grant of simba is one if the holder ends in its nonce. */
static kube_owner owner_in(const json_t *lease)
{
    kube_owner owner = {.lease_ms = 0};
    const json_t *spec = json_object_get(lease, "spec");
    const json_t *annotations = json_object_get(json_object_get(lease, "metadata"), "annotations");
    const char *holder = json_string_value(json_object_get(spec, "holderIdentity"));
    const char *grant = json_string_value(json_object_get(annotations, "simba/grant"));
    char end[24];
    snprintf(owner.holder, sizeof owner.holder, "%s", holder ? holder : "");
    snprintf(owner.id, sizeof owner.id, "%s", owner.holder);
    owner.lease_ms = json_integer_value(json_object_get(spec, "leaseDurationSeconds")) * 1000;
    if (!grant || sscanf(grant, "%" SCNx64 " %" SCNu64 " %" SCNd64, &owner.nonce, &owner.token, &owner.lease_ms) != 3)
        return owner;
    const int length = snprintf(end, sizeof end, "_%016" PRIx64, owner.nonce);
    const size_t name = strlen(owner.holder) - (size_t)length;
    if (strlen(owner.holder) > (size_t)length && strcmp(owner.holder + name, end) == 0) {
        owner.id[name] = '\0';
    } else {
        owner.nonce = owner.token = 0;
        owner.lease_ms = json_integer_value(json_object_get(spec, "leaseDurationSeconds")) * 1000;
    }
    return owner;
}

static unsigned handle_of(const sim *s, unsigned mutex, const kube_owner *owner)
{
    for (unsigned i = 0; i < s->plan->contenders; i++) {
        const sim_handle *handle = &s->handle[i];
        if (handle->mutex == mutex && handle->running && owner->nonce > 0 &&
            handle->candidate.machine.nonce == owner->nonce && strcmp(handle->id, owner->id) == 0)
            return i;
    }
    return SIM_NOBODY;
}

static kube_owner look_up(sim *s, unsigned mutex)
{
    char key[64];
    kube_key(mutex, key, sizeof key);
    kube_owner owner = owner_in(json_object_get(kube_state_of(s)->objects.objects, key));
    owner.changed_at = s->now;
    return owner;
}

static void compare(sim *s, unsigned mutex)
{
    kube_owner *before = &kube_state_of(s)->owner[mutex];
    const kube_owner after = look_up(s, mutex);
    const bool same = strcmp(before->holder, after.holder) == 0 && before->token == after.token;
    if (!same && before->holder[0])
        check_freed(s, mutex);
    if (!same && after.holder[0]) {
        const unsigned handle = handle_of(s, mutex, &after);
        check_granted(s, mutex, handle, after.token, handle == SIM_NOBODY && after.token > 0);
    }
    *before = after;
}

fake_kube_answer kube_carry_out(sim *s, unsigned api, const fake_kube_request *request, fake_kube_watch *watch)
{
    kube_state *state = kube_state_of(s);
    const uint64_t version = state->objects.version;
    char text[FAKE_KUBE_PATH];
    const fake_kube_answer answer = fake_kube_handle(&state->objects, request, false, watch);
    sim_tell(s, "api %u: %s %s%s%s: %d, version %" PRIu64 " %.*s", api, request->method, request->path,
             *request->query ? "?" : "", request->query, answer.code, state->objects.version, (int)request->size,
             request->size ? request->body : "");
    if (state->objects.version == version)
        return answer;
    if (state->written == state->capacity) {
        state->capacity = state->capacity ? 2 * state->capacity : 256;
        if (!(state->written_at = realloc(state->written_at, state->capacity * sizeof *state->written_at)))
            abort();
    }
    state->written_at[state->written++] = s->now;
    for (unsigned m = 0; m < s->plan->mutexes; m++) {
        snprintf(text, sizeof text, "/apis/coordination.k8s.io/v1/namespaces/default/leases/%s", sim_mutex_name(m));
        if (strcmp(request->path, text) == 0)
            compare(s, m);
    }
    kube_spread(s);
    return answer;
}

fake_kube_answer kube_write(sim *s, const char *method, unsigned mutex, const json_t *body)
{
    fake_kube_request request = {.token = FAKE_KUBERNETES_TOKEN, .type = "application/merge-patch+json"};
    char *text = json_dumps(body, JSON_COMPACT);
    const bool creates = strcmp(method, "POST") == 0;
    snprintf(request.method, sizeof request.method, "%s", method);
    snprintf(request.path, sizeof request.path, "/apis/coordination.k8s.io/v1/namespaces/default/leases%s%s",
             creates ? "" : "/", creates ? "" : sim_mutex_name(mutex));
    request.body = text;
    request.size = strlen(text);
    const fake_kube_answer answer = kube_carry_out(s, 0, &request, NULL);
    if (creates)
        compare(s, mutex);
    free(text);
    return answer;
}

void kube_rewind(sim *s, int64_t to)
{
    kube_state *state = kube_state_of(s);
    json_t *events = state->objects.history;
    for (; state->written > 0 && state->written_at[state->written - 1] > to; state->written--) {
        json_array_remove(events, state->written - 1);
        s->checks.lost_writes = true;
    }
    json_object_clear(state->objects.objects);
    for (size_t i = 0; i < state->written; i++) {
        const json_t *event = json_array_get(events, i);
        const char *key = json_string_value(json_object_get(event, "key"));
        if (strcmp(json_string_value(json_object_get(event, "type")), "DELETED") == 0)
            json_object_del(state->objects.objects, key);
        else
            json_object_set(state->objects.objects, key, json_object_get(event, "object"));
    }
    for (unsigned m = 0; m < s->plan->mutexes; m++)
        state->owner[m] = look_up(s, m);
}

/* The store has no clock: a holder whose time is over, and who was not seen to go, is there until somebody takes the Lease. */
bool kube_owner_of(const sim *s, unsigned mutex, simba_owner *ret_owner)
{
    const kube_owner *owner = &kube_state_of(s)->owner[mutex];
    memset(ret_owner, 0, sizeof *ret_owner);
    if (!owner->holder[0] || s->now - owner->changed_at > owner->lease_ms * SIM_MS)
        return false;
    snprintf(ret_owner->id, sizeof ret_owner->id, "%s", owner->id);
    ret_owner->token = owner->token;
    return true;
}
