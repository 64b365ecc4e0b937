/* Leases, which anybody may write who has access to the namespace. */
#include <string.h>

#include "fuzz/targets.h"
#include "stores/kubernetes/kubernetes.h"
#include "util/text.h"

/* Whatever a Lease says, its values are within bounds; and what a write makes of it says the same when it is read again. */
void fuzz_kube_lease(const uint8_t *data, size_t size)
{
    static kube_lease lease, again;
    char *text = fuzz_string(data, size);
    simba__json object, patch;
    if (simba__json_read(text, strlen(text), &object) && simba__kube_parse_lease(object, &lease)) {
        const versioned_record *record = &lease.record;
        FUZZ_CHECK(record->exists && record->version > 0 && record->version <= SIMBA__TOKEN_MAX);
        FUZZ_CHECK(memchr(record->id, '\0', sizeof record->id) &&
                   (!record->held || record->id[0] || lease.flaw || !record->token));
        FUZZ_CHECK(lease.flaw || !record->held || (record->lease_ms > 0 && record->lease_ms <= SIMBA_LEASE_MAX_MS));
        FUZZ_CHECK(record->token <= SIMBA__TOKEN_MAX && (!record->token || record->held));
        FUZZ_CHECK(lease.note_size <= SIMBA_NOTE_MAX && (!lease.note_damaged || lease.note_size == 0));
        FUZZ_CHECK(lease.mutex[0] != '\0');
        simba__buffer body = {0};
        simba__kube_put_patch(&body, record, record->version, NULL);
        FUZZ_CHECK(!body.failed && simba__json_read(body.data, body.length, &patch));
        simba__buffer_put(&body, "", 1);
        if (record->token && !lease.flaw) {
            simba__buffer whole = {0};
            simba__json_put(&whole, "{'metadata':{'name':%s,'resourceVersion':'%lld','annotations':", lease.name,
                            (long long)record->version);
            const simba__json annotations = simba__json_get(simba__json_get(patch, "metadata"), "annotations");
            const simba__json spec = simba__json_get(patch, "spec");
            simba__buffer_put(&whole, annotations.at, annotations.length);
            simba__buffer_put(&whole, "},\"spec\":", strlen("},\"spec\":"));
            simba__buffer_put(&whole, spec.at, spec.length);
            simba__buffer_put(&whole, "}", 1);
            FUZZ_CHECK(simba__json_read(whole.data, whole.length, &object) && simba__kube_parse_lease(object, &again));
            FUZZ_CHECK(again.record.nonce == record->nonce && again.record.token == record->token &&
                       again.record.lease_ms == record->lease_ms && strcmp(again.record.id, record->id) == 0);
            simba__buffer_free(&whole);
        }
        simba__buffer_free(&body);
    }
    free(text);
}
