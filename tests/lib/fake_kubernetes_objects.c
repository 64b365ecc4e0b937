/* See fake_kubernetes.h. Objects are JSON and never change: a write puts a new one in the place of the old one, and into the history. */
#include <ctype.h>
#include <jansson.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/fake_kubernetes.h"

typedef struct resource {
    const char *name, *kind, *group,
        *api;         /* "leases", "Lease", "coordination.k8s.io" or "", "coordination.k8s.io/v1" */
    const char *path; /* up to the namespace */
} resource;

static const resource resources[] = {
    {"leases", "Lease", "coordination.k8s.io", "coordination.k8s.io/v1", "/apis/coordination.k8s.io/v1/namespaces/"},
    {"pods", "Pod", "", "v1", "/api/v1/namespaces/"}};

static const char *const namespaces[] = {"default", "kube-system"};

/* What a path names. */
typedef struct place {
    const resource *resource; /* NULL: nothing that there is */
    char namespace[64];
    char name[FAKE_KUBE_PATH]; /* "": all of them */
    char key[FAKE_KUBE_PATH];
} place;

void fake_kube_objects_init(fake_kube_objects *o)
{
    *o = (fake_kube_objects){
        .objects = json_object(), .history = json_array(), .version = 200, .oldest = 100, .shown = 200};
}

void fake_kube_objects_fini(fake_kube_objects *o)
{
    json_decref(o->objects);
    json_decref(o->history);
}

bool fake_kube_parameter(const char *query, const char *name, size_t size, char *ret_value)
{
    const size_t length = strlen(name);
    while (*query && (strncmp(query, name, length) != 0 || query[length] != '=')) {
        query += strcspn(query, "&");
        query += *query == '&';
    }
    if (!*query)
        return false;
    size_t at = 0;
    for (const char *c = query + length + 1; *c && *c != '&' && at + 1 < size; c++) {
        const bool coded = c[0] == '%' && isxdigit((unsigned char)c[1]) && isxdigit((unsigned char)c[2]);
        const char hex[3] = {c[1], coded ? c[2] : '\0', '\0'};
        ret_value[at++] = coded ? (char)strtol(hex, NULL, 16) : *c;
        c += coded ? 2 : 0;
    }
    ret_value[at] = '\0';
    return true;
}

/* --- failures ------------------------------------------------------------------------------------------------ */

fake_kube_answer fake_kube_failure(int code, const char *reason, const char *message)
{
    json_t *body = json_pack("{s:s, s:s, s:{}, s:s, s:s, s:i}", "kind", "Status", "apiVersion", "v1", "metadata",
                             "status", "Failure", "message", message, "code", code);
    if (reason)
        json_object_set_new(body, "reason", json_string(reason));
    return (fake_kube_answer){code, body};
}

/* `format` has the place of "leases.coordination.k8s.io "NAME"". */
static fake_kube_answer failed(int code, const char *reason, const char *format, const place *at)
{
    char what[2 * FAKE_KUBE_PATH], message[4 * FAKE_KUBE_PATH];
    const char *dot = *at->resource->group ? "." : "", *space = *at->name ? " \"" : "", *quote = *at->name ? "\"" : "";
    snprintf(what, sizeof what, "%s%s%s%s%s%s", at->resource->name, dot, at->resource->group, space, at->name, quote);
    snprintf(message, sizeof message, format, what); // NOLINT(clang-diagnostic-format-nonliteral): one of ours
    fake_kube_answer answer = fake_kube_failure(code, reason, message);
    json_t *details = json_pack("{s:s}", "kind", at->resource->name);
    if (*at->name)
        json_object_set_new(details, "name", json_string(at->name));
    if (*at->resource->group)
        json_object_set_new(details, "group", json_string(at->resource->group));
    json_object_set_new(answer.body, "details", details);
    return answer;
}

static fake_kube_answer invalid(const place *at, const char *field, const char *why)
{
    char message[4 * FAKE_KUBE_PATH];
    snprintf(message, sizeof message, "%s \"%s\" is invalid: %s: Invalid value: %s", at->resource->kind, at->name,
             field, why);
    return fake_kube_failure(422, "Invalid", message);
}

static fake_kube_answer conflict(const place *at)
{
    return failed(409, "Conflict",
                  "Operation cannot be fulfilled on %s: the object has been modified; please apply your changes to the "
                  "latest version and "
                  "try again",
                  at);
}

/* --- objects --------------------------------------------------------------------------------------------------- */

static json_t *meta(const json_t *object)
{
    return json_object_get(object, "metadata");
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static uint64_t version_of(const json_t *object)
{
    return strtoull(text_of(meta(object), "resourceVersion"), NULL, 10);
}

/* Keep the object (NULL: remove it) as the next version, and remember the event. */
static void put(fake_kube_objects *o, const char *key, const char *type, json_t *object)
{
    char version[24];
    json_t *copy = json_deep_copy(object);
    snprintf(version, sizeof version, "%llu", (unsigned long long)++o->version);
    json_object_set_new(meta(copy), "resourceVersion", json_string(version));
    json_array_append_new(o->history, json_pack("{s:s, s:s, s:I, s:O}", "key", key, "type", type, "version",
                                                (json_int_t)o->version, "object", copy));
    if (strcmp(type, "DELETED") == 0)
        json_object_del(o->objects, key);
    else
        json_object_set(o->objects, key, copy);
    json_decref(copy);
    if (!o->lags)
        o->shown = o->version;
}

/* RFC 7386. */
static void merge(json_t *target, const json_t *patch)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)patch, name, value)
    {
        json_t *old = json_object_get(target, name);
        if (json_is_null(value)) {
            json_object_del(target, name);
        } else if (!json_is_object(value)) {
            json_object_set(target, name, value);
        } else {
            if (!json_is_object(old))
                json_object_set_new(target, name, json_object());
            merge(json_object_get(target, name), value);
        }
    }
}

static bool matches(const char *text, const char *pattern)
{
    regex_t regex;
    if (regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB) != 0)
        abort();
    const bool does = regexec(&regex, text, 0, NULL, 0) == 0;
    regfree(&regex);
    return does;
}

/* A DNS-1123 subdomain. */
static bool is_name(const char *name)
{
    return strlen(name) <= 253 && matches(name, "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$");
}

static bool is_label(const char *value)
{
    return strlen(value) <= 63 && matches(value, "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$");
}

static bool is_micro_time(const char *text)
{
    static const char form[] = "dddd-dd-ddTdd:dd:dd.ddddddZ";
    size_t i = 0;
    while (form[i] && (form[i] == 'd' ? isdigit((unsigned char)text[i]) : text[i] == form[i]))
        i++;
    return form[i] == '\0' && text[i] == '\0';
}

/* Is every value of this object within the metadata a text? */
static bool has_texts(const json_t *object, const char *name)
{
    const char *key;
    json_t *value, *texts = json_object_get(meta(object), name);
    json_object_foreach(texts, key, value) if (!json_is_string(value)) return false;
    return !texts || json_is_object(texts);
}

/* The types of a Lease's fields, which the server finds out while it reads one; what it does not know it drops. */
static bool is_readable(const resource *r, json_t *object)
{
    static const struct {
        const char *name, *type;
    } fields[] = {{"holderIdentity", "text"}, {"leaseDurationSeconds", "number"}, {"acquireTime", "time"},
                  {"renewTime", "time"},      {"leaseTransitions", "number"},     {"strategy", "text"},
                  {"preferredHolder", "text"}};
    json_t *spec = json_object_get(object, "spec"), *known = json_object();
    bool good = has_texts(object, "annotations") && has_texts(object, "labels");
    for (size_t i = 0; i < sizeof fields / sizeof *fields && strcmp(r->kind, "Lease") == 0; i++) {
        json_t *value = json_object_get(spec, fields[i].name);
        if (!value || json_is_null(value))
            continue;
        good = good && (*fields[i].type == 'n' ? json_is_integer(value) : json_is_string(value)) &&
               (strcmp(fields[i].type, "time") != 0 || is_micro_time(json_string_value(value)));
        json_object_set(known, fields[i].name, value);
    }
    if (strcmp(r->kind, "Lease") == 0)
        json_object_set(object, "spec", known);
    json_decref(known);
    return good;
}

/* `code` 0: the object is valid. */
static fake_kube_answer validated(const place *at, const json_t *object)
{
    const json_t *spec = json_object_get(object, "spec"), *seconds = json_object_get(spec, "leaseDurationSeconds");
    const char *key;
    json_t *value;
    if (seconds && json_integer_value(seconds) <= 0)
        return invalid(at, "spec.leaseDurationSeconds", "must be greater than 0");
    if (json_integer_value(json_object_get(spec, "leaseTransitions")) < 0)
        return invalid(at, "spec.leaseTransitions", "must be greater than or equal to 0");
    json_object_foreach(json_object_get(meta(object), "labels"), key, value) if (
        !is_label(json_string_value(value))) return invalid(at, "metadata.labels",
                                                            "a valid label must be an empty string or consist of "
                                                            "alphanumeric characters, '-', '_' or '.'");
    return (fake_kube_answer){0, NULL};
}

/* --- requests ---------------------------------------------------------------------------------------------------- */

static fake_kube_answer create(fake_kube_objects *o, place *at, const fake_kube_request *request)
{
    char text[64];
    bool is_there = false;
    for (size_t i = 0; i < sizeof namespaces / sizeof *namespaces; i++)
        is_there = is_there || strcmp(at->namespace, namespaces[i]) == 0;
    if (!is_there) {
        snprintf(at->name, sizeof at->name, "%s", at->namespace);
        return failed(404, "NotFound", "%s not found", &(place){.resource = &(resource){"namespaces", "", "", "", ""}});
    }
    json_t *object = json_loadb(request->body, request->size, 0, NULL);
    if (!json_is_object(object) || !is_readable(at->resource, object)) {
        json_decref(object);
        return fake_kube_failure(400, "BadRequest", "the object provided cannot be handled");
    }
    if (!meta(object))
        json_object_set_new(object, "metadata", json_object());
    snprintf(at->name, sizeof at->name, "%s", text_of(meta(object), "name"));
    snprintf(at->key, sizeof at->key, "%s/%s/%s", at->resource->name, at->namespace, at->name);
    fake_kube_answer answer =
        is_name(at->name)
            ? validated(at, object)
            : invalid(at, "metadata.name",
                      "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'");
    if (!answer.code && json_object_get(o->objects, at->key))
        answer = failed(409, "AlreadyExists", "%s already exists", at);
    if (!answer.code) {
        json_object_set_new(object, "kind", json_string(at->resource->kind));
        json_object_set_new(object, "apiVersion", json_string(at->resource->api));
        json_object_set_new(meta(object), "namespace", json_string(at->namespace));
        snprintf(text, sizeof text, "00000000-0000-4000-8000-%012x", ++o->made);
        json_object_set_new(meta(object), "uid", json_string(text));
        json_object_set_new(meta(object), "creationTimestamp", json_string("2026-01-02T03:04:05Z"));
        put(o, at->key, "ADDED", object);
        answer = (fake_kube_answer){201, json_incref(json_object_get(o->objects, at->key))};
    }
    json_decref(object);
    return answer;
}

/* Put `after` in the place of `before` if it names no other version; a write that changes nothing makes no version. */
static fake_kube_answer replace(fake_kube_objects *o, const place *at, json_t *before, json_t *after)
{
    static const char *const kept[] = {"name", "namespace", "uid", "creationTimestamp"};
    const char *wanted = text_of(meta(after), "resourceVersion");
    if (strspn(wanted, "0123456789") != strlen(wanted))
        return fake_kube_failure(500, NULL, "strconv.ParseUint: parsing: invalid syntax");
    if (!is_readable(at->resource, after))
        return invalid(at, "patch", "it cannot be read");
    if (strtoull(wanted, NULL, 10) != version_of(before))
        return conflict(at);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        json_object_set(meta(after), kept[i], json_object_get(meta(before), kept[i]));
    json_object_set(after, "kind", json_object_get(before, "kind"));
    json_object_set(after, "apiVersion", json_object_get(before, "apiVersion"));
    const fake_kube_answer bad = validated(at, after);
    if (bad.code)
        return bad;
    if (!json_equal(before, after))
        put(o, at->key, "MODIFIED", after);
    return (fake_kube_answer){200, json_incref(json_object_get(o->objects, at->key))};
}

static fake_kube_answer change(fake_kube_objects *o, const place *at, const fake_kube_request *request, json_t *before)
{
    const bool patches = strcmp(request->method, "PATCH") == 0;
    if (patches && strcmp(request->type, "application/merge-patch+json") != 0)
        return fake_kube_failure(415, "UnsupportedMediaType", "415: Unsupported Media Type");
    json_t *body = json_loadb(request->body, request->size, 0, NULL);
    if (!json_is_object(body)) {
        json_decref(body);
        return fake_kube_failure(400, "BadRequest", "error decoding patch");
    }
    if (!patches && !*text_of(meta(body), "resourceVersion")) {
        json_decref(body);
        return invalid(at, "metadata.resourceVersion", "0: must be specified for an update");
    }
    json_t *after = patches ? json_deep_copy(before) : json_incref(body);
    if (patches)
        merge(after, body);
    const fake_kube_answer answer = replace(o, at, before, after);
    json_decref(after);
    json_decref(body);
    return answer;
}

static fake_kube_answer discard(fake_kube_objects *o, const place *at, const fake_kube_request *request, json_t *object)
{
    json_t *options = json_loadb(request->body, request->size, 0, NULL);
    const json_t *conditions = json_object_get(options, "preconditions");
    const char *uid = text_of(conditions, "uid"), *version = text_of(conditions, "resourceVersion");
    const bool fits = (!*uid || strcmp(uid, text_of(meta(object), "uid")) == 0) &&
                      (!*version || strcmp(version, text_of(meta(object), "resourceVersion")) == 0);
    json_decref(options);
    if (!fits)
        return failed(409, "Conflict", "Operation cannot be fulfilled on %s: the precondition does not match", at);
    json_t *details = json_pack("{s:s, s:s, s:s, s:s}", "name", at->name, "group", at->resource->group, "kind",
                                at->resource->name, "uid", text_of(meta(object), "uid"));
    put(o, at->key, "DELETED", object);
    return (fake_kube_answer){200, json_pack("{s:s, s:s, s:{}, s:s, s:o}", "kind", "Status", "apiVersion", "v1",
                                             "metadata", "status", "Success", "details", details)};
}

/* The version before the latest, if there was one. */
static json_t *earlier(const fake_kube_objects *o, const char *key, json_t *object)
{
    for (size_t i = json_array_size(o->history); i-- > 0;) {
        json_t *event = json_array_get(o->history, i), *old = json_object_get(event, "object");
        if (strcmp(text_of(event, "key"), key) == 0 && old != object && strcmp(text_of(event, "type"), "DELETED") != 0)
            return old;
    }
    return object;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The continuation is the last key that was told. Only what is told is copied, without the fields that a list says once. */
static fake_kube_answer list(fake_kube_objects *o, const place *at, const fake_kube_request *request)
{
    char text[FAKE_KUBE_PATH], after[FAKE_KUBE_PATH] = "", only[FAKE_KUBE_PATH] = "", version[24];
    const bool cached =
        fake_kube_parameter(request->query, "resourceVersion", sizeof text, text) && strcmp(text, "0") == 0;
    const unsigned long limit =
        !cached && fake_kube_parameter(request->query, "limit", sizeof text, text) ? strtoul(text, NULL, 10) : 0;
    fake_kube_parameter(request->query, "continue", sizeof after, after);
    if (*after && strncmp(after, at->key, strlen(at->key)) != 0)
        return fake_kube_failure(400, "BadRequest", "invalid continue token");
    if (fake_kube_parameter(request->query, "fieldSelector", sizeof only, only) &&
        strncmp(only, "metadata.name=", 14) != 0)
        return fake_kube_failure(400, "BadRequest",
                                 "it is not a known field selector: only \"metadata.name\", \"metadata.namespace\"");
    const char **keys = calloc(json_object_size(o->objects) + 1, sizeof *keys), *key;
    size_t count = 0, told = 0, at_key = 0;
    json_t *value, *items = json_array();
    json_object_foreach(o->objects, key,
                        value) if (strncmp(key, at->key, strlen(at->key)) == 0 && strcmp(key, after) > 0 &&
                                   (!*only || strcmp(key + strlen(at->key), only + 14) == 0)) keys[count++] = key;
    qsort(keys, count, sizeof *keys, by_key);
    for (; at_key < count && (!limit || told < limit); at_key++, told++) {
        json_t *item = json_copy(json_object_get(o->objects, keys[at_key]));
        json_object_del(item, "kind");
        json_object_del(item, "apiVersion");
        json_array_append_new(items, item);
    }
    snprintf(version, sizeof version, "%llu", (unsigned long long)o->version);
    json_t *about = json_pack("{s:s}", "resourceVersion", version);
    if (at_key < count) {
        json_object_set_new(about, "continue", json_string(keys[at_key - 1]));
        if (!*only)
            json_object_set_new(about, "remainingItemCount", json_integer((json_int_t)(count - at_key)));
    }
    free(keys);
    snprintf(text, sizeof text, "%sList", at->resource->kind);
    return (fake_kube_answer){200, json_pack("{s:s, s:s, s:o, s:o}", "kind", text, "apiVersion", at->resource->api,
                                             "metadata", about, "items", items)};
}

static fake_kube_answer review(const fake_kube_objects *o, const fake_kube_request *request)
{
    json_t *body = json_loadb(request->body, request->size, 0, NULL);
    const json_t *asks = json_object_get(json_object_get(body, "spec"), "resourceAttributes");
    if (!asks) {
        json_decref(body);
        return fake_kube_failure(422, "Invalid",
                                 "exactly one of nonResourceAttributes or resourceAttributes must be specified");
    }
    const bool allowed =
        strcmp(request->token, FAKE_KUBERNETES_TOKEN) == 0 && !strstr(o->forbidden, text_of(asks, "verb"));
    json_object_set_new(body, "status", json_pack("{s:b}", "allowed", allowed));
    return (fake_kube_answer){201, body};
}

/* --- watches ------------------------------------------------------------------------------------------------------- */

static bool concerns(const fake_kube_watch *watch, const char *key)
{
    return watch->exact ? strcmp(key, watch->prefix) == 0 : strncmp(key, watch->prefix, strlen(watch->prefix)) == 0;
}

static fake_kube_answer begin_watch(const place *at, const fake_kube_request *request, fake_kube_watch *watch)
{
    char text[FAKE_KUBE_PATH];
    *watch = (fake_kube_watch){.timeout_ms = 1800000};
    snprintf(watch->prefix, sizeof watch->prefix, "%s", at->key);
    if (fake_kube_parameter(request->query, "fieldSelector", sizeof text, text)) {
        if (strncmp(text, "metadata.name=", 14) != 0)
            return fake_kube_failure(400, "BadRequest", "it is not a known field selector");
        snprintf(watch->prefix + strlen(watch->prefix), sizeof watch->prefix - strlen(watch->prefix), "%s", text + 14);
        watch->exact = true;
    }
    watch->bookmarks =
        fake_kube_parameter(request->query, "allowWatchBookmarks", sizeof text, text) && strcmp(text, "true") == 0;
    if (fake_kube_parameter(request->query, "timeoutSeconds", sizeof text, text) && strtol(text, NULL, 10) > 0)
        watch->timeout_ms = strtol(text, NULL, 10) * 1000;
    if (fake_kube_parameter(request->query, "resourceVersion", sizeof text, text)) {
        if (strspn(text, "0123456789") != strlen(text))
            return fake_kube_failure(500, NULL, "resourceVersion: Invalid value: strconv.ParseUint: invalid syntax");
        watch->version = strtoull(text, NULL, 10);
    }
    return (fake_kube_answer){0, NULL};
}

static void tell(FILE *out, const char *type, const json_t *object)
{
    char *text = json_dumps(object, JSON_COMPACT);
    fprintf(out, "{\"type\":\"%s\",\"object\":%s}\n", type, text);
    free(text);
}

char *fake_kube_bookmark(const fake_kube_watch *watch)
{
    char *text = NULL;
    if (asprintf(&text,
                 "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Lease\",\"apiVersion\":\"coordination.k8s.io/"
                 "v1\",\"metadata\":"
                 "{\"resourceVersion\":\"%llu\"},\"spec\":{}}}\n",
                 (unsigned long long)watch->version) < 0)
        abort();
    return text;
}

/* Without a version it begins with what is there. */
static void tell_what_is_there(const fake_kube_objects *o, fake_kube_watch *watch, FILE *out)
{
    const char *key;
    json_t *object;
    json_object_foreach(o->objects, key, object) if (concerns(watch, key)) tell(out, "ADDED", object);
    watch->version = o->version;
}

char *fake_kube_events(fake_kube_objects *o, fake_kube_watch *watch)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = watch->timeout_ms > 0 ? open_memstream(&text, &size) : NULL;
    if (!out)
        return NULL;
    if (watch->version == 0)
        tell_what_is_there(o, watch, out);
    if (watch->version < o->oldest) {
        fake_kube_answer gone = fake_kube_failure(410, "Expired", "too old resource version");
        tell(out, "ERROR", gone.body);
        json_decref(gone.body);
        watch->timeout_ms = 0;
    }
    for (; watch->timeout_ms > 0 && watch->next < json_array_size(o->history); watch->next++) {
        const json_t *event = json_array_get(o->history, watch->next);
        const uint64_t version = (uint64_t)json_integer_value(json_object_get(event, "version"));
        if (version > o->shown)
            break;
        if (version <= watch->version)
            continue;
        watch->version = version;
        if (concerns(watch, text_of(event, "key")))
            tell(out, text_of(event, "type"), json_object_get(event, "object"));
    }
    fclose(out);
    if (size == 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* --- who asks for what ------------------------------------------------------------------------------------------------ */

static place place_of(const char *path)
{
    place at = {0};
    for (size_t i = 0; i < sizeof resources / sizeof *resources; i++) {
        const size_t length = strlen(resources[i].path);
        char format[64];
        snprintf(format, sizeof format, "%%63[^/]/%s%%n/%%1000[^/]%%n", resources[i].name);
        int end = 0, named = 0;
        if (strncmp(path, resources[i].path, length) != 0)
            continue;
        sscanf(path + length, format, at.namespace, &end, at.name, &named); // NOLINT: one of ours
        if (end == 0 || path[length + (size_t)(named ? named : end)] != '\0')
            continue;
        at.resource = &resources[i];
        snprintf(at.key, sizeof at.key, "%s/%s/%s", resources[i].name, at.namespace, at.name);
    }
    return at;
}

static const char *verb_of(const fake_kube_request *request, const place *at, bool watches)
{
    if (strcmp(request->method, "GET") == 0)
        return watches ? "watch" : *at->name ? "get" : "list";
    return strcmp(request->method, "POST") == 0    ? "create"
           : strcmp(request->method, "PUT") == 0   ? "update"
           : strcmp(request->method, "PATCH") == 0 ? "patch"
                                                   : "delete";
}

static fake_kube_answer forbidden(const fake_kube_request *request, const char *verb, const place *at)
{
    char format[512];
    snprintf(format, sizeof format,
             "%%s is forbidden: User \"%s\" cannot %s resource \"%s\" in API group \"%s\" in the namespace \"%s\"",
             *request->token ? request->token : "system:anonymous", verb, at->resource->name, at->resource->group,
             at->namespace);
    return failed(403, "Forbidden", format, at);
}

fake_kube_answer fake_kube_handle(fake_kube_objects *o, const fake_kube_request *request, bool stale,
                                  fake_kube_watch *ret_watch)
{
    char text[16];
    const bool watches =
        fake_kube_parameter(request->query, "watch", sizeof text, text) && (*text == '1' || *text == 't');
    place at = place_of(request->path);
    if (*request->token && strcmp(request->token, FAKE_KUBERNETES_TOKEN) != 0 &&
        strcmp(request->token, FAKE_KUBERNETES_WEAK_TOKEN) != 0)
        return fake_kube_failure(401, "Unauthorized", "Unauthorized");
    if (strcmp(request->path, "/readyz") == 0)
        return (fake_kube_answer){200, NULL};
    if (strcmp(request->path, "/version") == 0)
        return (fake_kube_answer){200,
                                  json_pack("{s:s, s:s, s:s}", "major", "1", "minor", "34", "gitVersion", "v1.34.1")};
    if (strcmp(request->path, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews") == 0)
        return review(o, request);
    if (!at.resource)
        return fake_kube_failure(404, "NotFound", "the server could not find the requested resource");
    const char *verb = verb_of(request, &at, watches);
    if (strcmp(request->token, FAKE_KUBERNETES_TOKEN) != 0 || strstr(o->forbidden, verb))
        return forbidden(request, verb, &at);
    json_t *object = json_object_get(o->objects, at.key);
    if (*at.name && strcmp(verb, "create") != 0 && !object)
        return failed(404, "NotFound", "%s not found", &at);
    if (strcmp(verb, "watch") == 0 && !*at.name)
        return begin_watch(&at, request, ret_watch);
    if (strcmp(verb, "list") == 0)
        return list(o, &at, request);
    if (strcmp(verb, "get") == 0)
        return (fake_kube_answer){200, json_incref(stale ? earlier(o, at.key, object) : object)};
    if (strcmp(verb, "create") == 0 && !*at.name)
        return create(o, &at, request);
    if (*at.name && (strcmp(verb, "patch") == 0 || strcmp(verb, "update") == 0))
        return change(o, &at, request, object);
    if (*at.name && strcmp(verb, "delete") == 0)
        return discard(o, &at, request, object);
    return fake_kube_failure(405, "MethodNotAllowed",
                             "the server does not allow this method on the requested resource");
}
