/* What a store says reaches people by errors, log lines and findings, and in none of them has it an effect: a store of our
 * own, whose server is hostile. */
#include <simba/backend.h>
#include <stdio.h>
#include <stdlib.h>

#include "support.h"

#define EVIL "red \033[31m\n\377\302\233 text"
#define SHOWN "red \\x1B[31m\\x0A\\xFF\\xC2\\x9B text"

static void loud_submit(void *self, simba_request *request)
{
    stub_host->log(stub_host, SIMBA_LOG_INFO, "it says %s", EVIL);
    stub_host->forgets(stub_host, "it forgets %s", EVIL);
    if (request->op != SIMBA_OP_EXAMINE) {
        (stub_host->fail)(stub_host, request, SIMBA_ESTORE, "loud: %s", EVIL);
        return;
    }
    const simba_finding finding = {sizeof(simba_finding), SIMBA_VERDICT_WARNING, "server", EVIL, EVIL EVIL};
    stub_host->found(stub_host, request, &finding);
    stub_host->complete(stub_host, request);
}

static char lines[1024];

static void note_line(void *user, simba_log_level level, const char *text)
{
    if (level < SIMBA_LOG_EVENT && strlen(lines) + strlen(text) + 2 < sizeof lines)
        strcat(strcat(lines, text), "|");
}

/* What programs get: the sentence escaped, the values as they are. */
static struct {
    char message[256], keys[128], mutex[64];
    char servers[128]; /* "connected one|reconnected two|" */
    char forgets[256];
    unsigned failures, notes, warnings;
} said;

static const char *server = "";

static const char *loud_server(void *self)
{
    return server;
}

static void note_record(void *user, const simba_log_record *record)
{
    assert_int_equal(record->size, sizeof *record);
    if (strcmp(record->event, "note") == 0 && record->field_count == 0)
        said.notes++;
    if (strstr(record->event, "connected")) {
        assert_int_equal(record->field_count, 2);
        strcat(strcat(strcat(strcat(said.servers, record->event), " "), record->fields[1].value), "|");
    }
    if (strcmp(record->event, "store-forgets") == 0) {
        said.warnings += record->level == SIMBA_LOG_WARN;
        snprintf(said.forgets, sizeof said.forgets, "%s; %s=%s", record->message, record->fields[0].key,
                 record->fields[0].value);
    }
    if (strcmp(record->event, "store-failed") != 0)
        return;
    said.failures++;
    snprintf(said.message, sizeof said.message, "%s", record->message);
    for (size_t i = 0; i < record->field_count; i++) {
        const simba_log_field *field = &record->fields[i];
        strcat(strcat(said.keys, field->key), " ");
        if (strcmp(field->key, "mutex") == 0)
            snprintf(said.mutex, sizeof said.mutex, "%s", field->value);
    }
}

static void note_finding(const simba_finding *finding, void *user)
{
    snprintf(user, 256, "%s|%s|%s", finding->what, finding->text, finding->remedy);
}

static void words_of_a_store_are_escaped(void **state)
{
    static const char *const schemes[] = {"loud", NULL};
    assert_int_equal(stub_register((simba_backend){.schemes = schemes,
                                                   .caps = SIMBA_CAP_LIST | SIMBA_CAP_EXAMINE,
                                                   .submit = loud_submit,
                                                   .server = loud_server}),
                     0);
    simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    options.log = note_line;
    options.log_level = SIMBA_LOG_DEBUG;
    simba_client *client = NULL;
    simba_error err = {0};
    char found[256] = "";
    assert_int_equal(simba_client_open("loud://x", &options, &err, &client), 0);
    assert_int_equal(simba_client_force_release(client, "m", &err), SIMBA_ESTORE);
    assert_string_equal(err.text, "force release m: loud: " SHOWN);
    assert_int_equal(simba_client_examine(client, note_finding, found, &err), 0);
    assert_string_equal(found, "server|" SHOWN "|" SHOWN SHOWN);
    assert_non_null(strstr(lines, "it says " SHOWN "|"));
    assert_non_null(strstr(lines, "force release m: loud: " SHOWN
                                  "; mutex=m request=\"force release\" error=SIMBA_ESTORE store=loud://x|"));
    assert_null(strpbrk(lines, "\033\n\377"));
    assert_int_equal(simba_client_close(client), 0);

    options.log_record = note_record; /* instead */
    lines[0] = '\0';
    assert_int_equal(simba_client_open("loud://x", &options, &err, &client), 0);
    assert_int_equal(simba_client_force_release(client, "m n", &err), SIMBA_ESTORE);
    /* Where it is connected: once, and again when it is another server. */
    static const char *const servers[] = {"", "", "one:1", "two\n:2", "two\n:2"};
    for (size_t i = 0; i < COUNT_OF(servers); i++) {
        server = servers[i];
        assert_int_equal(simba_client_examine(client, note_finding, found, &err), 0);
    }
    assert_string_equal(said.servers, "connected x|reconnected one:1|reconnected two\n:2|");
    assert_int_equal(simba_client_close(client), 0);
    assert_string_equal(lines, "");
    assert_int_equal(said.failures, 1);
    assert_int_equal(said.warnings, 1); /* however often the store says it */
    assert_string_equal(said.forgets, "it forgets " SHOWN "; store=loud://x");
    assert_true(said.notes >= 1);
    assert_string_equal(said.message, "force release m n: loud: " SHOWN);
    assert_string_equal(said.keys, "mutex request error store ");
    assert_string_equal(said.mutex, "m n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(words_of_a_store_are_escaped)};
    return cmocka_run_group_tests_name("words", tests, NULL, NULL);
}
