/* See access.h. */
#include "access.h"

#include <string.h>
#include <strings.h>

/* In a time that says nothing about where the two differ. */
static bool is_same(const char *given, const char *secret)
{
    const size_t length = strlen(secret);
    const size_t given_length = strlen(given);
    unsigned char differs = given_length != length;
    for (size_t i = 0; i < given_length; i++)
        differs |= (unsigned char)(given[i] ^ secret[i % (length > 0 ? length : 1)]);
    return differs == 0;
}

static bool has_token(const char *authorization, const char *token)
{
    static const char scheme[] = "Bearer ";
    return token != NULL && authorization != NULL && strncasecmp(authorization, scheme, sizeof scheme - 1) == 0 &&
           is_same(authorization + sizeof scheme - 1, token);
}

/* Is it a name that only this machine has? A page of another site that has its own name point here still says that name. */
static bool is_this_machine(const char *host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    if (host == NULL)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const size_t length = strlen(names[i]);
        const char *port = host + length;
        if (strncasecmp(host, names[i], length) == 0 &&
            (port[0] == '\0' || (port[0] == ':' && strspn(port + 1, "0123456789") == strlen(port + 1))))
            return true;
    }
    return false;
}

access_verdict access_to_read(const access_rules *rules, const access_request *request)
{
    const bool is_known =
        has_token(request->authorization, rules->token) || (rules->by_certificate && request->has_certificate);
    if (is_known)
        return ACCESS_GRANTED;
    if (rules->token != NULL || rules->by_certificate)
        return ACCESS_NO_TOKEN;
    return is_this_machine(request->host) ? ACCESS_GRANTED : ACCESS_WRONG_HOST;
}

static bool is_own_origin(const access_rules *rules, const access_request *request)
{
    const char *scheme = rules->has_tls ? "https://" : "http://";
    const size_t length = strlen(scheme);
    return request->host != NULL && strncmp(request->origin, scheme, length) == 0 &&
           strcasecmp(request->origin + length, request->host) == 0;
}

access_verdict access_to_change(const access_rules *rules, const access_request *request)
{
    if (request->fetch_site != NULL && strcmp(request->fetch_site, "same-origin") != 0)
        return ACCESS_FOREIGN;
    if (request->origin != NULL && !is_own_origin(rules, request))
        return ACCESS_FOREIGN;
    /* The browser sends its certificate with every request, even one that a page of another site has caused; it does not
     * send a token by itself. */
    return has_token(request->authorization, rules->token) ? ACCESS_GRANTED : ACCESS_NO_TOKEN;
}
