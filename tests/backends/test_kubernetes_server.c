/* What Kubernetes' API server answers to the requests that simba sends, as cases that hold on the tests' own server, and by
 * `./test kubernetes` on the real one: test_kubernetes_server [PORT FOLDER], where the folder is one of tests/lib/server_kubernetes.c. */
#include <arpa/inet.h>
#include <jansson.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/cm.h"
#include "lib/fake_kubernetes.h"
#include "lib/server.h"

#define LEASES "/apis/coordination.k8s.io/v1/namespaces/default/leases"
#define PODS "/api/v1/namespaces/default/pods"
#define REVIEWS "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

enum { TEXT = 1 << 20 };

static server home; /* of our own server */
static fake_kubernetes fake;
static int port;
static const char *folder;

/* --- a client that blocks ------------------------------------------------------------------------------------- */

typedef struct client {
    int fd;
    SSL_CTX *context;
    SSL *tls;
    char head[8192], body[TEXT];
    int status;
} client;

static void client_open(client *c)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval limit = {.tv_sec = 30};
    char ca[128];
    snprintf(ca, sizeof ca, "%s/ca.pem", folder);
    c->context = SSL_CTX_new(TLS_client_method());
    assert_int_equal(SSL_CTX_load_verify_locations(c->context, ca, NULL), 1);
    SSL_CTX_set_verify(c->context, SSL_VERIFY_PEER, NULL);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    assert_int_equal(connect(c->fd, (const struct sockaddr *)&address, sizeof address), 0);
    c->tls = SSL_new(c->context);
    SSL_set1_host(c->tls, "localhost");
    SSL_set_tlsext_host_name(c->tls, "localhost");
    SSL_set_fd(c->tls, c->fd);
    assert_int_equal(SSL_connect(c->tls), 1);
}

static void client_close(client *c)
{
    SSL_free(c->tls);
    SSL_CTX_free(c->context);
    close(c->fd);
}

static void client_send(client *c, const char *token, const char *method, const char *target, const char *type,
                        const char *body)
{
    char *text = NULL;
    const int size =
        asprintf(&text,
                 "%s %s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: simba\r\nAuthorization: Bearer %s\r\nContent-Type: "
                 "%s\r\nContent-Length: %zu\r\n\r\n%s",
                 method, target, token, type, strlen(body), body);
    assert_int_equal(SSL_write(c->tls, text, size), size);
    free(text);
}

static void read_until(client *c, char *to, size_t size, const char *end)
{
    size_t at = 0;
    do {
        assert_true(at + 1 < size);
        assert_int_equal(SSL_read(c->tls, to + at, 1), 1);
        to[++at] = '\0';
    } while (at < strlen(end) || strcmp(to + at - strlen(end), end) != 0);
}

static void read_exactly(client *c, char *to, size_t size)
{
    for (size_t at = 0; at < size;) {
        const int got = SSL_read(c->tls, to + at, (int)(size - at));
        assert_true(got > 0);
        at += (size_t)got;
    }
    to[size] = '\0';
}

static void read_head(client *c)
{
    read_until(c, c->head, sizeof c->head, "\r\n\r\n");
    assert_int_equal(sscanf(c->head, "HTTP/1.1 %d", &c->status), 1); // NOLINT(cert-err34-c)
}

/* Append one chunk to the body. False: it was the last. */
static bool read_chunk(client *c)
{
    char line[32], end[3];
    read_until(c, line, sizeof line, "\r\n");
    const size_t size = strtoul(line, NULL, 16), at = strlen(c->body);
    assert_true(at + size < sizeof c->body);
    read_exactly(c, c->body + at, size);
    read_exactly(c, end, 2);
    return size > 0;
}

static void read_answer(client *c)
{
    read_head(c);
    *c->body = '\0';
    const char *length = strcasestr(c->head, "\r\nContent-Length: ");
    if (length) {
        const size_t size = strtoul(length + 18, NULL, 10);
        assert_true(size < sizeof c->body);
        read_exactly(c, c->body, size);
    } else {
        while (read_chunk(c)) {
        }
    }
}

/* --- cases ------------------------------------------------------------------------------------------------------- */

/* In what is sent: $V is the version of the object in the latest answer that had one, $O the version before that one, $U its uid, $C what a
 * list said about its continuation. ' stands for ". What is expected is part of the answer; "*" in it is any value. */
typedef struct step {
    const char *method; /* perhaps after a token and a blank, if it is not that of somebody who may do everything */
    const char *target, *body;
    int status;
    const char *expected;
} step;

static char latest[32], before[32], uid[64], continuation[512];

static char *filled(const char *text)
{
    char *out = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&out, &size);
    for (; text && *text; text++) {
        const char *value = *text != '$'     ? NULL
                            : text[1] == 'V' ? latest
                            : text[1] == 'O' ? before
                            : text[1] == 'U' ? uid
                                             : continuation;
        if (value)
            fputs(value, file), text++;
        else
            fputc(*text == '\'' ? '"' : *text, file);
    }
    fclose(file);
    return out;
}

static bool has(const json_t *value, const json_t *part)
{
    const char *name;
    json_t *inner;
    size_t i;
    if (json_is_string(part) && strcmp(json_string_value(part), "*") == 0)
        return value != NULL;
    if (json_is_object(part)) {
        json_object_foreach((json_t *)part, name, inner) if (!json_is_null(inner)
                                                                 ? !has(json_object_get(value, name), inner)
                                                                 : json_object_get(value, name) != NULL) return false;
        return json_is_object(value);
    }
    if (json_is_array(part) && json_array_size(part) == json_array_size(value)) {
        json_array_foreach(part, i, inner) if (!has(json_array_get(value, i), inner)) return false;
        return true;
    }
    return json_equal(value, part);
}

static void assert_has(const char *what, const char *text, const char *expected)
{
    char *wanted = filled(expected);
    json_t *value = json_loads(text, JSON_DISABLE_EOF_CHECK, NULL), *part = json_loads(wanted, 0, NULL);
    if (!part)
        fail_msg("not JSON: %s", wanted);
    if (!has(value, part))
        fail_msg("%s answered %s, which lacks %s", what, text, wanted);
    json_decref(value);
    json_decref(part);
    free(wanted);
}

static void remember(const char *text)
{
    json_t *value = json_loads(text, 0, NULL), *about = json_object_get(value, "metadata");
    const char *version = json_string_value(json_object_get(about, "resourceVersion")),
               *id = json_string_value(json_object_get(about, "uid")),
               *more = json_string_value(json_object_get(about, "continue"));
    if (version && strcmp(version, latest) != 0) {
        memcpy(before, latest, sizeof before);
        snprintf(latest, sizeof latest, "%s", version);
    }
    if (id)
        snprintf(uid, sizeof uid, "%s", id);
    if (more)
        snprintf(continuation, sizeof continuation, "%s", more);
    json_decref(value);
}

static void ask(client *c, const step *s)
{
    const char *method = strchr(s->method, ' ') ? strchr(s->method, ' ') + 1 : s->method;
    const char *type = strcmp(method, "PATCH") == 0 ? "application/merge-patch+json" : "application/json";
    char token[16] = FAKE_KUBERNETES_TOKEN, *target = filled(s->target), *body = filled(s->body);
    if (method != s->method)
        snprintf(token, sizeof token, "%.*s", (int)(method - s->method - 1), s->method);
    client_send(c, token, method, target, type, body);
    read_answer(c);
    if (c->status != s->status)
        fail_msg("%s %s %s: %d and not %d: %s", s->method, target, body, c->status, s->status, c->body);
    if (s->expected)
        assert_has(target, c->body, s->expected);
    remember(c->body);
    free(target);
    free(body);
}

/* All by one connection. */
static void ask_all(const step *steps, size_t count)
{
    client *c = calloc(1, sizeof *c);
    assert_non_null(c);
    client_open(c);
    for (size_t i = 0; i < count; i++)
        ask(c, &steps[i]);
    client_close(c);
    free(c);
}
#define ASK_ALL(...)                                                                                                   \
    do {                                                                                                               \
        static const step steps_[] = {__VA_ARGS__};                                                                    \
        ask_all(steps_, sizeof steps_ / sizeof *steps_);                                                               \
    } while (0)

#define NAMED(name) "{'metadata':{'name':'" name "'},'spec':{}}"
#define FAILS(code, reason)                                                                                            \
    "{'kind':'Status','apiVersion':'v1','status':'Failure','reason':'" reason "','code':" #code "}"
#define ABOUT(name) "'details':{'name':'" name "','group':'coordination.k8s.io','kind':'leases'}"

/* A Lease comes to be once, and only under a name that DNS allows. */
static void create(void **state)
{
    (void)state;
    ASK_ALL({"GET", LEASES "/create", "", 404, "{'reason':'NotFound','code':404," ABOUT("create") "}"},
            {"POST", LEASES, NAMED("create"), 201,
             "{'kind':'Lease','apiVersion':'coordination.k8s.io/"
             "v1','metadata':{'name':'create','namespace':'default','uid':'*',"
             "'resourceVersion':'*','creationTimestamp':'*'},'spec':{'holderIdentity':null}}"},
            {"POST", LEASES, NAMED("create"), 409, "{'reason':'AlreadyExists','code':409," ABOUT("create") "}"},
            {"GET", LEASES "/create", "", 200, "{'kind':'Lease','metadata':{'name':'create','resourceVersion':'$V'}}"},
            {"POST", LEASES, NAMED("Create_"), 422, FAILS(422, "Invalid")},
            {"POST", LEASES, NAMED("-a"), 422, FAILS(422, "Invalid")},
            {"POST", LEASES, NAMED("a..b"), 422, FAILS(422, "Invalid")}, {"POST", LEASES, NAMED("a.b-c"), 201, NULL},
            {"POST", LEASES, NAMED(""), 422, NULL},
            {"POST", LEASES, "{'metadata':{'name':'x'},'spec':{'leaseDurationSeconds':0}}", 422, FAILS(422, "Invalid")},
            {"POST", LEASES, "{'metadata':{'name':'x'},'spec':{'renewTime':'2026-11-19T17:00:00Z'}}", 400,
             FAILS(400, "BadRequest")},
            {"POST", LEASES, "{'metadata':{'name':'x'},'spec':{'holderIdentity':5}}", 400, FAILS(400, "BadRequest")},
            {"POST", LEASES, "{'metadata':", 400, FAILS(400, "BadRequest")},
            {"POST", "/apis/coordination.k8s.io/v1/namespaces/nosuch/leases", NAMED("x"), 404, FAILS(404, "NotFound")},
            {"POST", LEASES "/create", NAMED("x"), 405, FAILS(405, "MethodNotAllowed")},
            {"GET", "/apis/coordination.k8s.io/v1/namespaces/nosuch/leases", "", 200, "{'items':[]}"});
}

#define HELD(version, holder)                                                                                          \
    "{'metadata':{'resourceVersion':'" version                                                                         \
    "','annotations':{'simba/grant':'n 1 2'}},'spec':{'holderIdentity':'" holder                                       \
    "','leaseDurationSeconds':3,'acquireTime':'2026-11-19T17:00:00.123456Z','renewTime':'2026-11-19T17:00:00.123456Z'" \
    ","                                                                                                                \
    "'leaseTransitions':1}}"

/* A patch that names a version is a compare-and-swap; one that changes nothing makes no version. */
static void patch(void **state)
{
    (void)state;
    ASK_ALL(
        {"POST", LEASES, "{'metadata':{'name':'patch','annotations':{'other/one':'stays'}},'spec':{}}", 201, NULL},
        {"PATCH", LEASES "/patch", HELD("$V", "me_n"), 200,
         "{'kind':'Lease','metadata':{'resourceVersion':'*','annotations':{'other/one':'stays','simba/grant':'n 1 2'}},"
         "'spec':{'holderIdentity':'me_n','leaseDurationSeconds':3,'renewTime':'2026-11-19T17:00:00.123456Z','"
         "leaseTransitions':1}}"},
        {"PATCH", LEASES "/patch", HELD("$O", "you_n"), 409, "{'reason':'Conflict','code':409," ABOUT("patch") "}"},
        {"PATCH", LEASES "/patch", HELD("99999999", "you_n"), 409, FAILS(409, "Conflict")},
        {"PATCH", LEASES "/patch", HELD("$O", "me_n"), 409, FAILS(409, "Conflict")},
        {"PATCH", LEASES "/patch", HELD("$V", "me_n"), 200, "{'metadata':{'resourceVersion':'$V'}}"},
        {"GET", LEASES "/patch", "", 200, "{'metadata':{'resourceVersion':'$V'},'spec':{'holderIdentity':'me_n'}}"},
        {"PATCH", LEASES "/patch", "{'metadata':{'annotations':{'simba/grant':null}},'spec':{'holderIdentity':''}}",
         200, "{'metadata':{'annotations':{'other/one':'stays','simba/grant':null}},'spec':{'holderIdentity':''}}"},
        {"PATCH", LEASES "/patch", "{'spec':{'holderIdentity':null}}", 200, "{'spec':{'holderIdentity':null}}"},
        {"PATCH", LEASES "/patch", "{'spec':{'nosuch':1}}", 200,
         "{'spec':{'nosuch':null},'metadata':{'resourceVersion':'$V'}}"},
        {"PATCH", LEASES "/patch", "{'metadata':{'resourceVersion':'abc'}}", 500, "{'kind':'Status','code':500}"},
        {"PATCH", LEASES "/patch", "{'spec':{'leaseDurationSeconds':0}}", 422, FAILS(422, "Invalid")},
        {"PATCH", LEASES "/patch", "{'spec':{'leaseTransitions':-1}}", 422, FAILS(422, "Invalid")},
        {"PATCH", LEASES "/patch", "{'spec':{'renewTime':'2026-11-19T17:00:00.123Z'}}", 422, FAILS(422, "Invalid")},
        {"PATCH", LEASES "/patch", "{'spec':", 400, FAILS(400, "BadRequest")},
        {"PATCH", LEASES "/nosuch", HELD("$V", "me_n"), 404, FAILS(404, "NotFound")});
}

/* client-go writes the whole object. */
static void put(void **state)
{
    (void)state;
    ASK_ALL({"POST", LEASES, NAMED("put"), 201, NULL},
            {"PUT", LEASES "/put", "{'metadata':{'name':'put','resourceVersion':'$V'},'spec':{'holderIdentity':'a'}}",
             200, "{'spec':{'holderIdentity':'a'}}"},
            {"PUT", LEASES "/put", "{'metadata':{'name':'put','resourceVersion':'$O'},'spec':{'holderIdentity':'b'}}",
             409, FAILS(409, "Conflict")},
            {"PUT", LEASES "/put", "{'metadata':{'name':'put'},'spec':{'holderIdentity':'b'}}", 422,
             FAILS(422, "Invalid")});
}

/* A deletion names what it deletes; the next object of that name has another uid and a greater version. */
static void delete (void **state)
{
    (void)state;
    ASK_ALL({"POST", LEASES, NAMED("delete"), 201, NULL},
            {"DELETE", LEASES "/delete", "{'preconditions':{'uid':'$U','resourceVersion':'1'}}", 409,
             FAILS(409, "Conflict")},
            {"DELETE", LEASES "/delete", "{'preconditions':{'uid':'00000000-0000-0000-0000-000000000000'}}", 409,
             FAILS(409, "Conflict")},
            {"DELETE", LEASES "/delete", "{'preconditions':{'uid':'$U','resourceVersion':'$V'}}", 200,
             "{'kind':'Status','status':'Success','details':{'name':'delete','kind':'leases','uid':'$U'}}"},
            {"DELETE", LEASES "/delete", "{}", 404, FAILS(404, "NotFound")});
    char version[32], id[64];
    memcpy(version, latest, sizeof version);
    memcpy(id, uid, sizeof id);
    ASK_ALL({"POST", LEASES, NAMED("delete"), 201, NULL}, {"DELETE", LEASES "/delete", "", 200, NULL});
    assert_true(strtoull(latest, NULL, 10) > strtoull(version, NULL, 10) + 1); /* the deletion was a version, too */
    assert_string_not_equal(id, uid);
}

/* Pages continue where the one before ended; a field selector names one. */
static void list(void **state)
{
    (void)state;
    static const char *const space = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    ask_all((const step[]){{"POST", space, NAMED("zz1"), 201, NULL}, {"POST", space, NAMED("zz2"), 201, NULL}}, 2);
    char one[256], page[256], next[256], wrong[256], field[256];
    snprintf(one, sizeof one, "%s?fieldSelector=metadata.name%%3Dzz2", space);
    snprintf(page, sizeof page, "%s?limit=1", space);
    snprintf(next, sizeof next, "%s?limit=500&continue=$C", space);
    snprintf(wrong, sizeof wrong, "%s?limit=1&continue=bad", space);
    snprintf(field, sizeof field, "%s?fieldSelector=spec.holderIdentity%%3Da", space);
    const step steps[] = {
        {"GET", one, "", 200,
         "{'kind':'LeaseList','apiVersion':'coordination.k8s.io/v1','metadata':{'resourceVersion':'*','continue':null},"
         "'items':[{'kind':null,'metadata':{'name':'zz2','resourceVersion':'*'},'spec':{}}]}"},
        {"GET", page, "", 200, "{'metadata':{'continue':'*','remainingItemCount':'*'},'items':['*']}"},
        {"GET", next, "", 200, "{'metadata':{'continue':null}}"},
        {"GET", wrong, "", 400, FAILS(400, "BadRequest")},
        {"GET", field, "", 400, FAILS(400, "BadRequest")}};
    ask_all(steps, sizeof steps / sizeof *steps);
}

/* Who is unknown gets 401, who may not 403; everybody may ask what he may. */
static void rights(void **state)
{
    (void)state;
#define REVIEW                                                                                                         \
    "{'kind':'SelfSubjectAccessReview','apiVersion':'authorization.k8s.io/"                                            \
    "v1','spec':{'resourceAttributes':" ATTRIBUTES "}}"
#define ATTRIBUTES "{'namespace':'default','verb':'patch','group':'coordination.k8s.io','resource':'leases'}"
    ASK_ALL(
        {"wrong GET", LEASES "/x", "", 401, FAILS(401, "Unauthorized")},
        {FAKE_KUBERNETES_WEAK_TOKEN " GET", LEASES "/x", "", 403, "{'reason':'Forbidden','code':403," ABOUT("x") "}"},
        {FAKE_KUBERNETES_WEAK_TOKEN " PATCH", LEASES "/x", "{}", 403, FAILS(403, "Forbidden")},
        {FAKE_KUBERNETES_WEAK_TOKEN " GET", LEASES "?watch=1&resourceVersion=0", "", 403, FAILS(403, "Forbidden")},
        {"POST", REVIEWS, REVIEW, 201, "{'kind':'SelfSubjectAccessReview','status':{'allowed':true}}"},
        {FAKE_KUBERNETES_WEAK_TOKEN " POST", REVIEWS, REVIEW, 201,
         "{'spec':{'resourceAttributes':" ATTRIBUTES "},'status':{'allowed':false}}"},
        {"POST", REVIEWS, "{'spec':{}}", 422, FAILS(422, "Invalid")}, {"GET", "/readyz", "", 200, NULL},
        {"GET", "/version", "", 200, "{'major':'1','gitVersion':'*'}"},
        {"GET", "/apis/coordination.k8s.io/v1/nosuch", "", 404, FAILS(404, "NotFound")});
}

/* A pod's labels come and go by merge-patch. */
static void labels(void **state)
{
    (void)state;
    ASK_ALL({"POST", PODS, "{'metadata':{'name':'pod'},'spec':{'containers':[{'name':'c','image':'i'}]}}", 201,
             "{'kind':'Pod'}"},
            {"PATCH", PODS "/pod", "{'metadata':{'labels':{'leader':'yes','a':'b'}}}", 200,
             "{'kind':'Pod','metadata':{'labels':{'leader':'yes','a':'b'}}}"},
            {"PATCH", PODS "/pod", "{'metadata':{'labels':{'leader':null}}}", 200,
             "{'metadata':{'labels':{'leader':null,'a':'b'}}}"},
            {"PATCH", PODS "/pod", "{'metadata':{'labels':{'leader':'a b'}}}", 422, FAILS(422, "Invalid")},
            {"PATCH", PODS "/nosuch", "{'metadata':{'labels':{'leader':'yes'}}}", 404,
             "{'reason':'NotFound','details':{'name':'nosuch','kind':'pods'}}"});
}

/* --- watches ------------------------------------------------------------------------------------------------------ */

static client *begin_watch(const char *query)
{
    client *c = calloc(1, sizeof *c);
    assert_non_null(c);
    char target[512];
    snprintf(target, sizeof target, LEASES "?watch=1%s", query);
    char *text = filled(target);
    client_open(c);
    client_send(c, FAKE_KUBERNETES_TOKEN, "GET", text, "application/json", "");
    read_head(c);
    assert_int_equal(c->status, 200);
    assert_non_null(strcasestr(c->head, "\r\nTransfer-Encoding: chunked"));
    free(text);
    return c;
}

/* The next event, which is a line. */
static void assert_event(client *c, const char *expected)
{
    char *end;
    while (!(end = strchr(c->body, '\n')))
        if (!read_chunk(c))
            fail_msg("the watch ends before it tells %s", expected);
    *end = '\0';
    assert_has("the watch", c->body, expected);
    memmove(c->body, end + 1, strlen(end + 1) + 1);
}

/* Some more bookmarks may come. */
static void assert_end(client *c)
{
    while (read_chunk(c)) {
    }
    for (const char *line = c->body; *line; line += strcspn(line, "\n") + 1)
        assert_has("the watch", line, "{'type':'BOOKMARK'}");
}

static void end_watch(client *c)
{
    client_close(c);
    free(c);
}

/* From a version on, a watch tells each change of its object and of no other, then how far it has come, and ends in time. The connection can be
 * used again. */
static void watch(void **state)
{
    (void)state;
    ASK_ALL({"POST", LEASES, NAMED("watch"), 201, NULL});
    client *c = begin_watch(
        "&resourceVersion=$V&allowWatchBookmarks=true&timeoutSeconds=6&fieldSelector=metadata.name%3Dwatch");
    ASK_ALL({"PATCH", LEASES "/watch", HELD("$V", "me_n"), 200, NULL});
    assert_event(
        c,
        "{'type':'MODIFIED','object':{'kind':'Lease','apiVersion':'coordination.k8s.io/v1','metadata':{'name':'watch',"
        "'resourceVersion':'$V'},'spec':{'holderIdentity':'me_n'}}}");
    ASK_ALL({"POST", LEASES, NAMED("watch-2"), 201, NULL},
            {"PATCH", LEASES "/watch", "{'spec':{'leaseTransitions':5}}", 200, NULL},
            {"PATCH", LEASES "/watch", "{'spec':{'leaseTransitions':5}}", 200, NULL},
            {"DELETE", LEASES "/watch", "", 200, NULL});
    assert_event(c, "{'type':'MODIFIED','object':{'metadata':{'name':'watch','resourceVersion':'$V'}}}");
    assert_event(c, "{'type':'DELETED','object':{'metadata':{'name':'watch','resourceVersion':'*'}}}");
    ASK_ALL({"POST", LEASES, NAMED("watch"), 201, NULL});
    assert_event(c, "{'type':'ADDED','object':{'metadata':{'name':'watch','resourceVersion':'$V'}}}");
    assert_event(c, "{'type':'BOOKMARK','object':{'kind':'Lease','metadata':{'name':null,'resourceVersion':'$V'}}}");
    assert_end(c);
    ask(c, &(step){"GET", LEASES "/watch", "", 200, NULL});
    end_watch(c);
}

/* All of a namespace. */
static void watch_all(void **state)
{
    (void)state;
    ASK_ALL({"POST", LEASES, NAMED("all"), 201, NULL});
    client *c = begin_watch("&resourceVersion=$V&timeoutSeconds=60");
    ASK_ALL({"POST", LEASES, NAMED("all-2"), 201, NULL});
    assert_event(c, "{'type':'ADDED','object':{'metadata':{'name':'all-2','resourceVersion':'$V'}}}");
    end_watch(c);
}

/* Without a version it begins with what is there. */
static void watch_from_now(void **state)
{
    (void)state;
    ASK_ALL({"POST", LEASES, NAMED("now"), 201, NULL});
    client *c = begin_watch("&timeoutSeconds=1&fieldSelector=metadata.name%3Dnow");
    assert_event(c, "{'type':'ADDED','object':{'metadata':{'name':'now','resourceVersion':'$V'}}}");
    assert_end(c);
    end_watch(c);
}

/* What happened before the watch began comes at once, in order. */
static void watch_from_the_past(void **state)
{
    (void)state;
    ASK_ALL({"POST", LEASES, NAMED("past"), 201, NULL},
            {"PATCH", LEASES "/past", "{'spec':{'leaseTransitions':1}}", 200, NULL});
    client *c = begin_watch("&resourceVersion=$O&timeoutSeconds=60&fieldSelector=metadata.name%3Dpast");
    assert_event(c, "{'type':'MODIFIED','object':{'metadata':{'resourceVersion':'$V'},'spec':{'leaseTransitions':1}}}");
    end_watch(c);
}

/* A version that is too old is an event. */
static void watch_too_old(void **state)
{
    (void)state;
    client *c = begin_watch("&resourceVersion=1&timeoutSeconds=60");
    assert_event(c, "{'type':'ERROR','object':{'kind':'Status','status':'Failure','reason':'Expired','code':410}}");
    assert_end(c);
    end_watch(c);
}

/* --- what only our own server does when it is told to -------------------------------------------------------------- */

static void refuses(void **state)
{
    (void)state;
    ASK_ALL({"POST", LEASES, NAMED("refuses"), 201, NULL});
    fake_kubernetes_fail(&fake, FAKE_KUBE_TOO_MANY, "PATCH", 1);
    ASK_ALL({"PATCH", LEASES "/refuses", HELD("$V", "me_n"), 429, FAILS(429, "TooManyRequests")});
    fake_kubernetes_fail(&fake, FAKE_KUBE_BROKEN, "PATCH", 1);
    ASK_ALL(
        {"PATCH", LEASES "/refuses", HELD("$V", "me_n"), 500, FAILS(500, "InternalError")},
        {"GET", LEASES "/refuses", "", 200, "{'metadata':{'resourceVersion':'$V'},'spec':{'holderIdentity':null}}"});
    fake_kubernetes_forbid(&fake, "patch,delete");
    ASK_ALL({"PATCH", LEASES "/refuses", HELD("$V", "me_n"), 403, FAILS(403, "Forbidden")},
            {"POST", REVIEWS, REVIEW, 201, "{'status':{'allowed':false}}"});
    fake_kubernetes_forbid(&fake, "");
}

/* The answer is lost, and the write is done. */
static void loses_answers(void **state)
{
    (void)state;
    char byte;
    ASK_ALL({"POST", LEASES, NAMED("loses"), 201, NULL});
    fake_kubernetes_fail(&fake, FAKE_KUBE_UNSURE, "PATCH", 1);
    ASK_ALL({"PATCH", LEASES "/loses", HELD("$V", "me_n"), 504, FAILS(504, "Timeout")},
            {"GET", LEASES "/loses", "", 200, "{'spec':{'holderIdentity':'me_n'}}"});
    fake_kubernetes_fail(&fake, FAKE_KUBE_LOST, "DELETE", 1);
    client *c = calloc(1, sizeof *c);
    assert_non_null(c);
    client_open(c);
    client_send(c, FAKE_KUBERNETES_TOKEN, "DELETE", LEASES "/loses", "application/json", "");
    assert_true(SSL_read(c->tls, &byte, 1) <= 0);
    client_close(c);
    free(c);
    ASK_ALL({"GET", LEASES "/loses", "", 404, NULL});
    assert_int_equal(fake_kubernetes_asked(&fake, "DELETE " LEASES "/loses"), 1);
}

/* Reads may be stale; watches may lag, and be told that they ask for too old a version. */
static void lags(void **state)
{
    (void)state;
    ASK_ALL({"POST", LEASES, NAMED("lags"), 201, NULL});
    client *c = begin_watch("&resourceVersion=$V&timeoutSeconds=60&fieldSelector=metadata.name%3Dlags");
    fake_kubernetes_lag(&fake, true);
    ASK_ALL({"PATCH", LEASES "/lags", HELD("$V", "me_n"), 200, NULL});
    fake_kubernetes_fail(&fake, FAKE_KUBE_STALE, "GET", 1);
    ASK_ALL({"GET", LEASES "/lags", "", 200, "{'metadata':{'resourceVersion':'$O'},'spec':{'holderIdentity':null}}"},
            {"PATCH", LEASES "/lags", "{'spec':{'leaseTransitions':7}}", 200, NULL});
    fake_kubernetes_lag(&fake, false);
    assert_event(c, "{'type':'MODIFIED','object':{'spec':{'holderIdentity':'me_n','leaseTransitions':1}}}");
    assert_event(c, "{'type':'MODIFIED','object':{'metadata':{'resourceVersion':'$V'},'spec':{'leaseTransitions':7}}}");
    end_watch(c);
    fake_kubernetes_compact(&fake);
    c = begin_watch("&resourceVersion=$O&timeoutSeconds=60&fieldSelector=metadata.name%3Dlags");
    assert_event(c, "{'type':'ERROR','object':{'code':410}}");
    assert_end(c);
    end_watch(c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest ours[] = {cmocka_unit_test(refuses), cmocka_unit_test(loses_answers),
                                      cmocka_unit_test(lags)};
    const struct CMUnitTest tests[] = {cmocka_unit_test(create),
                                       cmocka_unit_test(patch),
                                       cmocka_unit_test(put),
                                       cmocka_unit_test(delete),
                                       cmocka_unit_test(list),
                                       cmocka_unit_test(rights),
                                       cmocka_unit_test(labels),
                                       cmocka_unit_test(watch),
                                       cmocka_unit_test(watch_all),
                                       cmocka_unit_test(watch_from_now),
                                       cmocka_unit_test(watch_from_the_past),
                                       cmocka_unit_test(watch_too_old)};
    if (argc == 3) {
        port = (int)strtol(argv[1], NULL, 10);
        folder = argv[2];
        return cmocka_run_group_tests(tests, NULL, NULL);
    }
    server_init(&home);
    assert_true(server_make_certificates(home.folder));
    fake_kubernetes_start(&fake, home.port, home.folder);
    port = home.port;
    folder = home.folder;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL) + cmocka_run_group_tests(ours, NULL, NULL);
    fake_kubernetes_stop(&fake);
    server_fini(&home);
    return failed;
}
