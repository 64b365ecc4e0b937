/* See statements.h. In the texts, $TABLE, $WAITERS and $DECIDE stand for our names, and $NAME for that of the table without
 * quotes, for the server's catalog. */
#include "backends/postgresql/statements.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/buffer.h"

#define COLUMNS "mutex, acquired_at, ttl_at, transition_at, owner_id, version, nonce, nonce_version, revoked_version"
#define NOW "floor(extract(epoch from clock_timestamp()) * 1000)::bigint"
#define ARGUMENTS "text, text[], text[], bigint[], bigint[], bigint[], bigint[], bigint[], text"
/* How long a waiter stays in line after it has asked, or after its client has polled (every 30 s). */
#define IN_LINE_MS "75000"

static const char get_sql[] = "select " COLUMNS ", " NOW " from $TABLE where mutex = any($1::text[])";
static const char keep_sql[] =
    "with kept as (update $WAITERS set until = " NOW " + " IN_LINE_MS
    " where channel = $2 and mutex = any($1::text[]) and until < " NOW " + " IN_LINE_MS " / 2) "
    "select " COLUMNS ", " NOW " from $TABLE where mutex = any($1::text[])";
static const char list_sql[] = "select " COLUMNS ", " NOW " from $TABLE order by mutex";
static const char decide_sql[] = "select * from $DECIDE($1, $2, $3, $4, $5, $6, $7, $8, $9)";
static const char notify_sql[] = "select pg_notify($1, $2)";

/* One row, as schema.c reads it. */
static const char look_sql[] =
    "select to_regclass('$TABLE') is not null, "
    "(select count(*) from pg_attribute where attrelid = to_regclass('$TABLE') and not attisdropped and attname in "
    "('mutex', 'acquired_at', 'ttl_at', 'transition_at', 'owner_id', 'version', 'nonce', 'nonce_version', "
    "'revoked_version')), "
    "to_regclass('$WAITERS') is not null and to_regprocedure('$DECIDE(" ARGUMENTS ")') is not null, "
    "'$SCHEMA' = '' or to_regnamespace('\"$SCHEMA\"') is not null, "
    "pg_is_in_recovery() or current_setting('transaction_read_only') = 'on', "
    "current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit'), "
    "current_setting('synchronous_standby_names'), (select count(*) from pg_stat_replication), "
    "concat_ws(', ', "
    "case when not has_table_privilege(to_regclass('$TABLE'), 'select') then 'select on $NAME' end, "
    "case when not has_table_privilege(to_regclass('$TABLE'), 'insert') then 'insert on $NAME' end, "
    "case when not has_table_privilege(to_regclass('$TABLE'), 'update') then 'update on $NAME' end, "
    "case when not has_table_privilege(to_regclass('$WAITERS'), 'select') then 'select on $NAME_waiters' end, "
    "case when not has_table_privilege(to_regclass('$WAITERS'), 'insert') then 'insert on $NAME_waiters' end, "
    "case when not has_table_privilege(to_regclass('$WAITERS'), 'update') then 'update on $NAME_waiters' end, "
    "case when not has_table_privilege(to_regclass('$WAITERS'), 'delete') then 'delete on $NAME_waiters' end, "
    "case when not has_function_privilege(to_regprocedure('$DECIDE(" ARGUMENTS ")'), 'execute') "
    "then 'execute on $NAME_decide_1' end)";

static const char make_schema_sql[] = "create schema if not exists \"$SCHEMA\"";

/* Several statements in one transaction. Two who come at once take turns. */
static const char make_sql[] =
    "select pg_advisory_xact_lock(hashtextextended('simba init $NAME', 0));\n"
    "create table if not exists $TABLE (\n"
    "  mutex text collate \"C\" not null primary key,\n"
    "  acquired_at bigint not null,\n"
    "  ttl_at bigint not null,\n"
    "  transition_at bigint not null,\n"
    "  owner_id text collate \"C\" not null,\n"
    "  version bigint not null,\n"
    "  nonce bigint,\n"
    "  nonce_version bigint,\n"
    "  revoked_version bigint\n"
    ") with (fillfactor = 70);\n"
    "create unlogged table if not exists $WAITERS (\n"
    "  mutex text collate \"C\" not null,\n"
    "  nonce bigint not null,\n"
    "  channel text not null,\n"
    "  since bigint not null,\n"
    "  until bigint not null,\n"
    "  invited bigint not null,\n"
    "  primary key (mutex, nonce)\n"
    ") with (fillfactor = 70);\n"
    "create or replace function $DECIDE(\n"
    "  ops text, mutexes text[], ids text[], nonces bigint[], tokens bigint[], ttls bigint[], leases bigint[],\n"
    "  floors bigint[], own_channel text,\n"
    "  out mutex text, out acquired_at bigint, out ttl_at bigint, out transition_at bigint, out owner_id text,\n"
    "  out version bigint, out nonce bigint, out nonce_version bigint, out revoked_version bigint,\n"
    "  out now_ms bigint, out deed text, out place bigint)\n"
    "returns setof record language plpgsql set lock_timeout = '1s' as $simba$\n"
    "#variable_conflict use_column\n"
    "declare\n"
    "  op text;\n"
    "  seen $TABLE%rowtype;\n"
    "  is_free boolean;\n"
    "  is_mine boolean;\n"
    "  latest bigint;\n"
    "  writes boolean := false;\n"
    "  tells boolean;\n"
    "  was_invited bigint;\n"
    "  waiter record;\n"
    "begin\n"
    "  for i in 1 .. cardinality(mutexes) loop\n"
    "    op := substr(ops, i, 1);\n"
    "    deed := 'seen';\n"
    "    place := 0;\n"
    "    tells := false;\n"
    "    -- Pass 1 reads, pass 2 locks. Who looks, or finds that it has to wait and is in no line, locks nothing.\n"
    "    for pass in case when op in ('a', 'q', 'l') then 1 else 2 end .. 2 loop\n"
    "      if pass = 1 then\n"
    "        select * into seen from $TABLE t where t.mutex = mutexes[i];\n"
    "      else\n"
    "        select * into seen from $TABLE t where t.mutex = mutexes[i] for update skip locked;\n"
    "        if not found and exists (select from $TABLE t where t.mutex = mutexes[i]) then\n"
    "          deed := 'locked';\n"
    "        end if;\n"
    "      end if;\n"
    "      now_ms := " NOW ";\n"
    "      exit when seen.mutex is null;\n"
    "      is_free := seen.owner_id = '' or seen.transition_at < now_ms;\n"
    "      is_mine := not is_free and seen.owner_id = ids[i] and seen.nonce = nonces[i]\n"
    "        and seen.nonce_version = seen.version\n"
    "        and (tokens[i] = seen.version or (tokens[i] = 0 and op <> 'n'));\n"
    "      latest := greatest(seen.version, floors[i]);\n"
    "      exit when op = 'l' or (op = 'a' and not is_free and not is_mine);\n"
    "    end loop;\n"
    "    if seen.mutex is null and deed = 'seen' and op in ('a', 'q') and floors[i] < 9223372036854775807 then\n"
    "      insert into $TABLE (" COLUMNS ")\n"
    "        values (mutexes[i], now_ms, now_ms + ttls[i], now_ms + leases[i], ids[i], floors[i] + 1, nonces[i],\n"
    "          floors[i] + 1, null)\n"
    "        on conflict do nothing returning * into seen;\n"
    "      deed := case when found then 'done' else 'locked' end;\n"
    "    elsif seen.mutex is null then\n"
    "      null;\n"
    "    elsif op in ('a', 'q') and is_free and latest < 9223372036854775807 then\n"
    "      update $TABLE t set acquired_at = now_ms, ttl_at = now_ms + ttls[i], transition_at = now_ms + leases[i],\n"
    "          owner_id = ids[i], version = latest + 1, nonce = nonces[i], nonce_version = latest + 1\n"
    "        where t.mutex = mutexes[i] returning * into seen;\n"
    "      deed := 'done';\n"
    "    elsif op in ('a', 'q', 'n') and is_mine then\n"
    "      update $TABLE t set ttl_at = now_ms + ttls[i], transition_at = now_ms + leases[i]\n"
    "        where t.mutex = mutexes[i] returning * into seen;\n"
    "      deed := 'done';\n"
    "    elsif (op = 'r' and is_mine) or (op = 'f' and not is_free) then\n"
    "      update $TABLE t set acquired_at = 0, ttl_at = 0, transition_at = 0, owner_id = '', version = t.version + "
    "1,\n"
    "          nonce = 0, nonce_version = 0,\n"
    "          revoked_version = case op when 'f' then t.version else t.revoked_version end\n"
    "        where t.mutex = mutexes[i] returning * into seen;\n"
    "      deed := 'done';\n"
    "      tells := true;\n"
    "    end if;\n"
    "    writes := writes or deed = 'done';\n"
    "    -- The line.\n"
    "    if op = 'q' and deed = 'seen' then\n"
    "      delete from $WAITERS w where w.mutex = mutexes[i] and w.until < now_ms;\n"
    "      insert into $WAITERS as w (mutex, nonce, channel, since, until, invited)\n"
    "        values (mutexes[i], nonces[i], own_channel, now_ms, now_ms + " IN_LINE_MS ", 0)\n"
    "        on conflict (mutex, nonce) do update\n"
    "          set channel = excluded.channel, until = excluded.until, invited = 0;\n"
    "      select count(*) into place from $WAITERS w, $WAITERS own where own.mutex = mutexes[i]\n"
    "        and own.nonce = nonces[i] and w.mutex = own.mutex and (w.since, w.nonce) <= (own.since, own.nonce);\n"
    "    elsif op in ('q', 'r') and deed <> 'locked' then\n"
    "      delete from $WAITERS w where w.mutex = mutexes[i] and w.nonce = nonces[i]\n"
    "        returning w.invited into was_invited;\n"
    "      tells := tells or (op = 'r' and was_invited > 0 and is_free); -- it was told, and has no use for it\n"
    "    end if;\n"
    "    if tells then\n"
    "      for waiter in select * from $WAITERS w where w.mutex = mutexes[i] and w.until >= now_ms\n"
    "          order by w.invited, w.since, w.nonce limit 3 loop\n"
    "        place := place + 1;\n"
    "        perform pg_notify(waiter.channel, place || ' ' || mutexes[i]);\n"
    "        if place = 1 then -- should it be dead, the next release begins with another one\n"
    "          update $WAITERS w set invited = now_ms where w.mutex = mutexes[i] and w.nonce = waiter.nonce;\n"
    "        end if;\n"
    "      end loop;\n"
    "    end if;\n"
    "    mutex := mutexes[i];\n"
    "    acquired_at := seen.acquired_at;\n"
    "    ttl_at := seen.ttl_at;\n"
    "    transition_at := seen.transition_at;\n"
    "    owner_id := seen.owner_id;\n"
    "    version := seen.version;\n"
    "    nonce := seen.nonce;\n"
    "    nonce_version := seen.nonce_version;\n"
    "    revoked_version := seen.revoked_version;\n"
    "    return next;\n"
    "  end loop;\n"
    "  -- A grant that was told must not be lost with a crash or a fail-over; a place in the line may.\n"
    "  perform set_config('synchronous_commit',\n"
    "    case when not writes then 'off' when current_setting('synchronous_commit') = 'remote_apply' then "
    "'remote_apply'\n"
    "      else 'on' end, true);\n"
    "end $simba$;\n";

static const char *const texts[SIMBA__PG_STATEMENTS] = {
    [SIMBA__PG_DECIDE] = decide_sql, [SIMBA__PG_GET] = get_sql,       [SIMBA__PG_KEEP] = keep_sql,
    [SIMBA__PG_LIST] = list_sql,     [SIMBA__PG_LOOK] = look_sql,     [SIMBA__PG_MAKE_SCHEMA] = make_schema_sql,
    [SIMBA__PG_MAKE] = make_sql,     [SIMBA__PG_NOTIFY] = notify_sql,
};

char *simba__pg_statement_text(simba__pg_statement statement, const simba__pg_options *options)
{
    char named[3][2 * SIMBA__PG_NAME_MAX + 24];
    static const char *const suffixes[] = {"", "_waiters", "_decide_1"};
    for (size_t i = 0; i < 3; i++)
        snprintf(named[i], sizeof named[i], options->schema[0] ? "\"%s\".\"%s%s\"" : "%s\"%s%s\"", options->schema,
                 options->table, suffixes[i]);
    const struct {
        const char *mark, *name;
    } marks[] = {{"$TABLE", named[0]},
                 {"$WAITERS", named[1]},
                 {"$DECIDE", named[2]},
                 {"$SCHEMA", options->schema},
                 {"$NAME", options->table}};
    simba__buffer out = {0};
    for (const char *at = texts[statement]; *at;) {
        size_t plain = strcspn(at, "$");
        size_t i = 0;
        simba__buffer_put(&out, at, plain);
        at += plain;
        while (i < sizeof marks / sizeof *marks && strncmp(at, marks[i].mark, strlen(marks[i].mark)) != 0)
            i++;
        if (i < sizeof marks / sizeof *marks) {
            simba__buffer_put(&out, marks[i].name, strlen(marks[i].name));
            at += strlen(marks[i].mark);
        } else if (*at) {
            simba__buffer_put(&out, at++, 1);
        }
    }
    simba__buffer_put(&out, "", 1);
    if (out.failed)
        simba__buffer_free(&out);
    return out.data;
}
