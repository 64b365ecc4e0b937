/* HTTP/1.1 as text, see fake_kubernetes.h. Pure. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/fake_kubernetes.h"

const char fake_kube_watch_head[] =
    "HTTP/1.1 200 OK\r\nCache-Control: no-cache, private\r\nContent-Type: application/json\r\n"
    "Transfer-Encoding: chunked\r\n\r\n";

static void copy_header(const char *head, const char *name, size_t size, char *to)
{
    const char *line = strcasestr(head, name);
    if (line)
        snprintf(to, size, "%.*s", (int)strcspn(line + strlen(name), "\r"), line + strlen(name));
}

bool fake_kube_parse(const char *head, fake_kube_request *ret_request)
{
    char target[FAKE_KUBE_PATH * 3] = "", length[16] = "0";
    *ret_request = (fake_kube_request){.size = 0};
    if (sscanf(head, "%7[A-Z] %3071s HTTP/1.1", ret_request->method, target) != 2) // NOLINT(cert-err34-c)
        return false;
    snprintf(ret_request->path, sizeof ret_request->path, "%.*s", (int)strcspn(target, "?"), target);
    snprintf(ret_request->query, sizeof ret_request->query, "%s", strchr(target, '?') ? strchr(target, '?') + 1 : "");
    copy_header(head, "\r\nAuthorization: Bearer ", sizeof ret_request->token, ret_request->token);
    copy_header(head, "\r\nContent-Type: ", sizeof ret_request->type, ret_request->type);
    copy_header(head, "\r\nContent-Length: ", sizeof length, length);
    ret_request->size = strtoul(length, NULL, 10);
    return true;
}

static const char *reason_of(int code)
{
    static const struct {
        int code;
        const char *reason;
    } reasons[] = {{200, "OK"},
                   {201, "Created"},
                   {400, "Bad Request"},
                   {401, "Unauthorized"},
                   {403, "Forbidden"},
                   {404, "Not Found"},
                   {405, "Method Not Allowed"},
                   {409, "Conflict"},
                   {410, "Gone"},
                   {415, "Unsupported Media Type"},
                   {422, "Unprocessable Entity"},
                   {429, "Too Many Requests"},
                   {504, "Gateway Timeout"}};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].code == code)
            return reasons[i].reason;
    return "Internal Server Error";
}

char *fake_kube_chunk(const char *text)
{
    char *out = NULL;
    if (asprintf(&out, "%zx\r\n%s\r\n", text ? strlen(text) : 0, text ? text : "") < 0)
        abort();
    return out;
}

char *fake_kube_answer_text(fake_kube_answer answer)
{
    char *body = answer.body ? json_dumps(answer.body, JSON_COMPACT) : strdup("ok"), *out = NULL, length[48];
    const size_t size = strlen(body) + 1;
    const bool chunked = size > 2048;
    json_decref(answer.body);
    snprintf(length, sizeof length, chunked ? "Transfer-Encoding: chunked" : "Content-Length: %zu", size);
    if (asprintf(
            &out,
            chunked
                ? "HTTP/1.1 %d %s\r\nCache-Control: no-cache, private\r\nContent-Type: application/json\r\n%s%s\r\n\r\n"
                  "%zx\r\n%s\n\r\n0\r\n\r\n"
                : "HTTP/1.1 %d %s\r\nCache-Control: no-cache, private\r\nContent-Type: application/json\r\n%s%s\r\n\r\n"
                  "%.0zx%s\n",
            answer.code, reason_of(answer.code), answer.code == 429 ? "Retry-After: 1\r\n" : "", length,
            chunked ? size : 0, body) < 0)
        abort();
    free(body);
    return out;
}
