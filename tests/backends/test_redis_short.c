/* The short ways through the scripts beside the general part. Two mutexes get the same requests, by chance: one by the scripts as
 * they are, the other by scripts that take no short way. Whoever asks must get the same answer, everybody must hear the same, and the
 * same must be stored. A moment lasts for hours here, so that nothing depends on how quick the machine is. */
#include "backends/redis/scripts.h"

#include "backends/test_redis.h"
#include "util/mem.h"
#include "util/random.h"

enum { ROUNDS = 2000, IDS = 9, LIVING = 8 };

/* The last one waits without listening, as somebody who was killed does. */
static const char *const ids[IDS] = {"0:77@10.0.0.1", "b", "c", "d", "e", "f", "g", "h", "dead"};
static const char *const nonces[IDS] = {"00000000000000000001", "00000000000000000002", "00000000000000000003",
                                        "00000000000000000004", "00000000000000000005", "00000000000000000006",
                                        "00000000000000000007", "00000000000000000008", "00000000000000000009"};

typedef struct side {
    const char *mutex;
    bool is_short;
    char sha[REDIS_SCRIPTS][41];
    char token[IDS][17]; /* of the grant that a contender had last */
    redisContext *ear;
    char seen[2048]; /* what the latest request has led to */
} side;

static side sides[2] = {{.mutex = "short", .is_short = true}, {.mutex = "whole"}};
static long long jvm_since_s; /* since when a JVM contender waits: before all others */
static unsigned places;       /* answers of a short way into the queue */

/* --- scripts ----------------------------------------------------------------------------------------- */

/* Both texts have the same length. */
static void replace(char *text, const char *from, const char *to, bool needed)
{
    char *at = strstr(text, from);
    assert_true(at || !needed);
    assert_int_equal(strlen(from), strlen(to));
    for (size_t i = 0; at && to[i]; i++)
        at[i] = to[i];
}

static void load(side *s, redis_script script)
{
    char *text = simba__redis_script_text(script, &(redis_options){.kind = REDIS_SINGLE});
    char *whole;
    assert_non_null(text);
    replace(text, "local RESERVED, GRANT_KEPT, QUEUE_KEPT, TOKEN_END = 100,",
            "local RESERVED,GRANT_KEPT,QUEUE_KEPT,TOKEN_END =9000000,", true);
    /* Whether somebody who joins the queue tidies it up is left to chance; here nobody does. */
    replace(text, "micros % 16 ~= 0", "true            ", script == REDIS_ACQUIRE);
    replace(text, "time[2] % 16 == 0", "false            ", script == REDIS_ACQUIRE);
    assert_true(asprintf(&whole, "%s%s",
                         s->is_short ? "" : "local redis = {call = redis.call, error_reply = redis.error_reply}\n",
                         text) > 0);
    snprintf(s->sha[script], sizeof s->sha[script], "%s", say("SCRIPT LOAD %s", whole));
    free(whole);
    simba__free(text);
}

static void note(side *s, const char *what, const char *text)
{
    const size_t length = strlen(s->seen);
    snprintf(s->seen + length, sizeof s->seen - length, "%s %s\n", what, text);
}

/* Who has it, its token if it has one, how long its transition is, and the place in the queue. */
static void note_answer(side *s, const redisReply *reply, char *ret_token)
{
    char text[512];
    char owner[128] = "";
    long long token = 0;
    long long transition_ms = 0;
    long long place = 0;
    if (reply->type == REDIS_REPLY_STRING && reply->str[0] == '#') {
        assert_int_equal(
            sscanf(reply->str, "#%lld %*u %lld %*u %*u %*u %*u %lld@@%127[^@]", &place, &token, &transition_ms, owner),
            4);
        const char *id = strstr(reply->str, "@@") + 2; /* an id may have one "@" in it */
        snprintf(owner, sizeof owner, "%.*s", (int)(strstr(id, "@@") - id), id);
        places++;
    } else if (reply->type == REDIS_REPLY_ARRAY) {
        snprintf(owner, sizeof owner, "%s", reply->element[2]->str);
        token = reply->element[3]->integer;
        transition_ms = reply->element[6]->integer - reply->element[5]->integer;
        place = reply->elements > 7 ? reply->element[7]->integer : 0;
    } else if (reply->type == REDIS_REPLY_STRING) {
        snprintf(ret_token, 17, "%s", reply->str);
        note(s, "granted", "");
        return;
    } else {
        note(s, "answer", text_of(reply, text, sizeof text));
        return;
    }
    snprintf(text, sizeof text, "%s token %d transition %lld place %lld", owner, token != 0, transition_ms, place);
    note(s, "refused", text);
}

static void run(side *s, redis_script script, int who, size_t count, const char *const *args)
{
    char keys[REDIS_KEYS_MOST][REDIS_KEY_SIZE];
    char key_count[12];
    const char *argv[16] = {"EVALSHA", s->sha[script], key_count};
    size_t argc = 3;
    const size_t all = simba__redis_script_keys(script, false, s->mutex, keys);
    snprintf(key_count, sizeof key_count, "%zu", all);
    for (size_t i = 0; i < all; i++)
        argv[argc++] = keys[i];
    for (size_t i = 0; i < count; i++)
        argv[argc++] = args[i];
    redisReply *reply = redisCommandArgv(raw, (int)argc, argv, NULL);
    assert_non_null(reply);
    note_answer(s, reply, s->token[who]);
    freeReplyObject(reply);
}

/* --- what is stored, and what is heard --------------------------------------------------------------- */

/* Who is invited, and who stands by. */
static void read_tail(const side *s, char ret_next[64], char ret_standby[256])
{
    unsigned length = 0;
    int begin = 0;
    const char *grant = say("GET simba:{%s}:grant", s->mutex);
    const char *id = strlen(grant) > 87 ? strstr(grant + 87, "@@") : NULL;
    const char *tail = id ? strstr(id + 2, "@@") : NULL;
    ret_next[0] = ret_standby[0] = '\0';
    if (!tail || sscanf(tail + 2, "%*u %*u %u %n", &length, &begin) != 1)
        return;
    const char *names = tail + 2 + begin;
    snprintf(ret_next, 64, "%.*s", (int)length, names);
    snprintf(ret_standby, 256, "%s", names + length);
}

static void note_store(side *s)
{
    char next[64];
    char standby[256];
    note(s, "owner", say("GET simba:{%s}", s->mutex));
    note(s, "queue", say("ZRANGE simba:{%s}:contender 0 -1", s->mutex));
    note(s, "queue ends", say("TTL simba:{%s}:contender", s->mutex)[0] == '-' ? "-" : "yes");
    note(s, "grant ends", say("TTL simba:{%s}:grant", s->mutex)[0] == '-' ? "-" : "yes");
    read_tail(s, next, standby);
    note(s, "next", next);
    note(s, "standby", strcmp(standby, "@@.") == 0 ? "" : standby);
}

static void listen_to(side *s, const char *suffix, const char *id)
{
    freeReplyObject(redisCommand(s->ear, "SUBSCRIBE simba:{%s}%s%s", s->mutex, suffix, id));
}

static void open_ear(side *s)
{
    s->ear = redisConnect("127.0.0.1", redis.port);
    assert_true(s->ear && !s->ear->err);
    listen_to(s, "", "");
    listen_to(s, "@@", "");
    for (int i = 0; i < LIVING; i++) {
        listen_to(s, ":", ids[i]);
        listen_to(s, "@@", ids[i]);
    }
}

/* Everything that was published before the answer to this PING. */
static void note_messages(side *s)
{
    redisAppendCommand(s->ear, "PING");
    for (;;) {
        void *got = NULL;
        assert_int_equal(redisGetReply(s->ear, &got), REDIS_OK);
        redisReply *reply = got;
        const bool is_message = reply->type == REDIS_REPLY_ARRAY && strcmp(reply->element[0]->str, "message") == 0;
        if (is_message)
            note(s, strchr(reply->element[1]->str, '}'), reply->element[2]->str);
        freeReplyObject(reply);
        if (!is_message)
            return;
    }
}

/* --- requests ---------------------------------------------------------------------------------------- */

static void acquire_by(side *s, int who, const char *waits, const char *here)
{
    const bool plain = *waits == '1' && here[0] == '\0';
    run(s, REDIS_ACQUIRE, who, plain ? 4 : 6,
        (const char *[]){ids[who], nonces[who], "7200000", "3600000", waits, here});
}

/* Without a token a release takes no short way. */
static void release_by(side *s, int who, const char *here)
{
    char head[48];
    snprintf(head, sizeof head, "%s %s", s->is_short && s->token[who][0] ? s->token[who] : "0", nonces[who]);
    run(s, REDIS_RELEASE, who, here[0] ? 3 : 2, (const char *[]){ids[who], head, here});
}

/* Contenders on the JVM come and go, and one of them renews whatever it finds, whoever has it. */
static void play_jvm(side *s, unsigned chance)
{
    if (chance == 0)
        say("SET simba:{%s} jvm NX PX 7200000", s->mutex);
    else if (chance == 1 && strcmp(say("GET simba:{%s}", s->mutex), "jvm") == 0)
        say("DEL simba:{%s}", s->mutex);
    else if (chance == 2)
        say("ZADD simba:{%s}:contender NX %lld d", s->mutex, jvm_since_s);
    else if (chance == 3)
        say("PEXPIRE simba:{%s} 9000000", s->mutex);
    else if (chance == 4)
        say("DEL simba:{%s}", s->mutex); /* the lease has ended */
}

/* What the client of this contender knows of the queue, and names in its requests. */
static void choose_here(int who, unsigned chance, char out[80])
{
    char next[64];
    char standby[256];
    read_tail(&sides[0], next, standby);
    const bool queued = strcmp(say("ZSCORE simba:{short}:contender %s", ids[who]), "(nil)") != 0;
    if (strcmp(next, ids[who]) == 0 || (next[0] && chance == 0))
        snprintf(out, 80, "@@%s", next); /* with chance: another contender of the same client is invited */
    else if (chance == 1)
        snprintf(out, 80, "@@%s", ids[who]); /* it was invited, and is not any more */
    else
        snprintf(out, 80, "%s", queued || chance > 3 ? "@@" : "");
}

static void do_both(uint64_t *seed)
{
    char here[80];
    const int who = (int)simba__random_range(seed, 0, IDS);
    const unsigned what = (unsigned)simba__random_range(seed, 0, 20);
    const bool anew = simba__random_range(seed, 0, 40) == 0;
    const unsigned jvm = (unsigned)simba__random_range(seed, 0, 5);
    choose_here(who, (unsigned)simba__random_range(seed, 0, 8), here);
    for (size_t i = 0; i < 2; i++) {
        side *s = &sides[i];
        s->seen[0] = '\0';
        if (anew)
            say("DEL simba:{%s} simba:{%s}:grant simba:{%s}:contender", s->mutex, s->mutex, s->mutex);
        if (what < 1)
            play_jvm(s, jvm);
        else if (what < 11)
            acquire_by(s, who, what == 2 ? "0" : "1", here);
        else {
            /* mostly whoever has it */
            int by = who;
            const char *owner = say("GET simba:{%s}", s->mutex);
            for (int j = 0; what < 17 && j < IDS; j++)
                if (strcmp(owner, ids[j]) == 0)
                    by = j;
            release_by(s, by, by == who ? here : "@@");
        }
        note_messages(s);
        note_store(s);
    }
}

static void agree_with_the_general_part(void **state)
{
    (void)state;
    uint64_t seed = 16;
    /* A second of the present would lie before one of two equal requests, and behind the other. */
    jvm_since_s = strtoll(say("TIME"), NULL, 10) - 10;
    for (size_t i = 0; i < 2; i++) {
        load(&sides[i], REDIS_ACQUIRE);
        load(&sides[i], REDIS_RELEASE);
        open_ear(&sides[i]);
    }
    for (int i = 0; i < ROUNDS; i++) {
        char before[sizeof sides[0].seen];
        snprintf(before, sizeof before, "%s", sides[0].seen);
        do_both(&seed);
        if (strcmp(sides[0].seen, sides[1].seen) != 0)
            fail_msg("round %d:\n%s\nthe short way:\n%s\nthe general part:\n%s", i, before, sides[0].seen,
                     sides[1].seen);
    }
    for (size_t i = 0; i < 2; i++)
        redisFree(sides[i].ear);
    assert_true(places > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(agree_with_the_general_part, setup),
    };
    return RUN_REDIS_TESTS(tests);
}
