/* See statements.h. In the texts, @T is the table, @W that of the waiters, @D the function; @S is the schema and @N the table
 * without quotes; @F makes the function. */
#include "backends/postgresql/statements.h"

#include <stdio.h>
#include <string.h>

#include "net/buffer.h"
#include "util/mem.h"

#define COLUMNS "mutex, acquired_at, ttl_at, transition_at, owner_id, version, nonce, nonce_version, revoked_version"
#define MARK "note_token, note_number, forgotten_version"
#define NOTE "encode(note, 'hex'), note_written_at"
#define NOW "floor(extract(epoch from clock_timestamp()) * 1000)::bigint"
#define VERSION_MAX "9223372036854775807"
/* A waiter stays in the queue until a while after it should have asked again, which is when the lease that it knows of ends. It may
 * have learnt of a later one by a poll, so that puts it off as well. */
#define IN_LINE_UNTIL "greatest(now_ms + 75000, seen.transition_at + 30000)"

/* The `since` of the rows of holders that older programs leave among the waiters. */
#define HOLDS "9223372036854775807"

#define LACKS(right, of) "case when not has_table_privilege(to_regclass('" of "'), '" right "') then '" right " on "
#define LACKS_TABLE(right) LACKS(right, "@T") "@N' end, "
#define LACKS_WAITERS(right) LACKS(right, "@W") "@N_waiters' end, "
#define FUNCTION "to_regprocedure('@D(text[], text)')"

/* One row, as schema.c reads it. */
static const char look_sql[] =
    "select to_regclass('@T') is not null, "
    "(select count(*) from pg_attribute where attrelid = to_regclass('@T') and not attisdropped and attname = "
    "any(string_to_array('" COLUMNS "', ', '))), "
    "(select count(*) from pg_attribute where attrelid = to_regclass('@T') and not attisdropped and attname = "
    "any(string_to_array('note, note_written_at, " MARK "', ', '))), "
    "to_regclass('@W') is not null and " FUNCTION " is not null, "
    "'@S' = '' or to_regnamespace('\"@S\"') is not null, "
    "pg_is_in_recovery() or current_setting('transaction_read_only') = 'on', current_setting('server_version'), "
    "current_setting('fsync'), current_setting('synchronous_commit'), current_setting('synchronous_standby_names'), "
    "(select count(*) from pg_stat_replication), concat_ws(', ', " LACKS_TABLE("select") LACKS_TABLE("insert")
        LACKS_TABLE("update") LACKS_WAITERS("select") LACKS_WAITERS("insert") LACKS_WAITERS("update")
            LACKS_WAITERS("delete") "case when not has_function_privilege(" FUNCTION
                                    ", 'execute') then 'execute on @N_decide_4' end)";

static const char decide_sql[] =
    "create function @D(asks text[], own_channel text,\n"
    "  out mutex text, out acquired_at bigint, out ttl_at bigint, out transition_at bigint, out owner_id text,\n"
    "  out version bigint, out nonce bigint, out nonce_version bigint, out revoked_version bigint,\n"
    "  out note_token bigint, out note_number bigint, out forgotten_version bigint,\n"
    "  out now_ms bigint, out deed text, out place bigint)\n"
    "returns setof record language plpgsql as $simba$\n"
    "#variable_conflict use_column\n"
    "declare\n"
    "  settings text;\n"
    "  ask text[];\n"
    "  op text; name text; own_nonce bigint; token bigint; ttl_ms bigint; lease_ms bigint;\n"
    "  seen @T%rowtype;\n"
    "  latest bigint;\n"
    "  is_free boolean; is_mine boolean; tells boolean; notes boolean; writes boolean := false;\n"
    "  was_invited bigint;\n"
    "  waiter record;\n"
    "begin\n"
    "  -- For this transaction. A grant that was told must not be lost with a crash or a fail-over.\n"
    "  settings := set_config('lock_timeout', '1s', true) || set_config('synchronous_commit',\n"
    "    case current_setting('synchronous_commit') when 'remote_apply' then 'remote_apply' else 'on' end, true);\n"
    "  foreach ask slice 1 in array asks loop\n"
    "    op := ask[1]; name := ask[2]; own_nonce := ask[4]; token := ask[5]; ttl_ms := ask[6]; lease_ms := ask[7];\n"
    "    deed := 'refused';\n"
    "    place := 0;\n"
    "    tells := false;\n"
    "    notes := false;\n"
    "    -- Pass 1 reads, pass 2 locks. Who only looks, or has to wait and enters no line, locks nothing.\n"
    "    for pass in case when op in ('a', 's') then 1 else 2 end .. 2 loop\n"
    "      if pass = 1 then\n"
    "        select * into seen from @T t where t.mutex = name;\n"
    "      else\n"
    "        select * into seen from @T t where t.mutex = name for update skip locked;\n"
    "        if not found then\n"
    "          deed := case when exists (select from @T t where t.mutex = name) then 'locked' else 'refused' end;\n"
    "        end if;\n"
    "      end if;\n"
    "      now_ms := " NOW ";\n"
    "      exit when seen.mutex is null;\n"
    "      is_free := seen.owner_id = '' or seen.transition_at < now_ms;\n"
    "      is_mine := not is_free and seen.owner_id = ask[3] and seen.nonce = own_nonce\n"
    "        and seen.nonce_version = seen.version\n"
    "        and (token = seen.version or (token = 0 and op not in ('n', 'w')));\n"
    "      exit when op = 's' or (op = 'a' and not is_free and not is_mine);\n"
    "    end loop;\n"
    "    latest := greatest(seen.version, ask[8]::bigint);\n"
    "    if seen.mutex is null and deed = 'refused' and op in ('a', 'q') and latest < " VERSION_MAX " then\n"
    "      insert into @T (" COLUMNS ")\n"
    "        values (name, now_ms, now_ms + ttl_ms, now_ms + lease_ms, ask[3], latest + 1, own_nonce, latest + 1, "
    "null)\n"
    "        on conflict do nothing returning * into seen;\n"
    "      deed := case when found then 'done' else 'locked' end;\n"
    "    elsif seen.mutex is null then\n"
    "      null;\n"
    "    elsif op in ('a', 'q') and is_free and latest < " VERSION_MAX " then\n"
    "      update @T t set acquired_at = now_ms, ttl_at = now_ms + ttl_ms, transition_at = now_ms + lease_ms,\n"
    "          owner_id = ask[3], version = latest + 1, nonce = own_nonce, nonce_version = latest + 1\n"
    "        where t.mutex = name returning * into seen;\n"
    "      deed := 'done';\n"
    "    elsif op in ('a', 'q', 'n') and is_mine then\n"
    "      update @T t set ttl_at = now_ms + ttl_ms, transition_at = now_ms + lease_ms\n"
    "        where t.mutex = name returning * into seen;\n"
    "      deed := 'done';\n"
    "    elsif (op = 'r' and is_mine) or (op = 'f' and not is_free) then\n"
    "      update @T t set acquired_at = 0, ttl_at = 0, transition_at = 0, owner_id = '', version = t.version + 1,\n"
    "          nonce = 0, nonce_version = 0,\n"
    "          revoked_version = case op when 'f' then t.version else t.revoked_version end\n"
    "        where t.mutex = name returning * into seen;\n"
    "      deed := 'done';\n"
    "      tells := true;\n"
    "    elsif op = 'w' and is_mine\n"
    "        and (seen.note_token is distinct from token or seen.note_number <= ask[10]::bigint) then\n"
    "      update @T t set note = nullif(decode(ask[9], 'hex'), ''), note_token = token, note_number = "
    "ask[10]::bigint,\n"
    "          note_written_at = now_ms\n"
    "        where t.mutex = name returning * into seen;\n"
    "      deed := 'done';\n"
    "      notes := true;\n"
    "    elsif op = 'x' and is_free and seen.forgotten_version is distinct from seen.version then\n"
    "      notes := seen.note is not null;\n"
    "      update @T t set acquired_at = 0, ttl_at = 0, transition_at = 0, owner_id = '', nonce = null,\n"
    "          nonce_version = null, revoked_version = null, note = null, note_token = null, note_number = null,\n"
    "          note_written_at = null, forgotten_version = t.version\n"
    "        where t.mutex = name returning * into seen;\n"
    "      deed := 'done';\n"
    "    end if;\n"
    "    writes := writes or deed = 'done';\n"
    "    -- The queue.\n"
    "    if op = 'q' and deed = 'refused' then\n"
    "      delete from @W w where w.mutex = name and w.until < now_ms;\n"
    "      insert into @W as w (mutex, nonce, channel, since, until, invited)\n"
    "        values (name, own_nonce, own_channel, now_ms, " IN_LINE_UNTIL ", 0)\n"
    "        on conflict (mutex, nonce) do update\n"
    "          set channel = excluded.channel, until = excluded.until, invited = 0;\n"
    "      select count(*) into place from @W w, @W own\n"
    "        where own.mutex = name and own.nonce = own_nonce and w.mutex = own.mutex\n"
    "        and (w.since, w.nonce) <= (own.since, own.nonce);\n"
    "    elsif (op = 'q' and deed = 'done') or (op = 'r' and deed = 'refused') then\n"
    "      delete from @W w where w.mutex = name and w.nonce = own_nonce returning w.invited into was_invited;\n"
    "      tells := tells or (op = 'r' and was_invited > 0 and is_free); -- it was told, and has no use for it\n"
    "    elsif op = 's' and own_channel <> '' then\n"
    "      update @W w set until = " IN_LINE_UNTIL "\n"
    "        where w.mutex = name and w.channel = own_channel and w.until < greatest(now_ms + 37500, "
    "seen.transition_at);\n"
    "    end if;\n"
    "    if tells then\n"
    "      -- One of each client: should the first client be dead, all of its waiters are.\n"
    "      for waiter in select * from (select distinct on (w.channel) * from @W w\n"
    "          where w.mutex = name and w.until >= now_ms and w.since < " HOLDS "\n"
    "          order by w.channel, w.invited, w.since, w.nonce) w\n"
    "          order by w.invited, w.since, w.nonce limit 3 loop\n"
    "        place := place + 1;\n"
    "        perform pg_notify(waiter.channel, place || ' ' || name);\n"
    "        if place = 1 then -- should it be dead, the next release begins with another one\n"
    "          update @W w set invited = now_ms where w.mutex = name and w.nonce = waiter.nonce;\n"
    "        end if;\n"
    "      end loop;\n"
    "    end if;\n"
    "    if notes then\n"
    "      for waiter in select distinct w.channel from @W w\n"
    "          where w.mutex = name and w.until >= now_ms and w.channel <> own_channel loop\n"
    "        perform pg_notify(waiter.channel, '4 ' || name);\n"
    "      end loop;\n"
    "    end if;\n"
    "    mutex := name; acquired_at := seen.acquired_at; ttl_at := seen.ttl_at; transition_at := seen.transition_at;\n"
    "    owner_id := seen.owner_id; version := seen.version; nonce := seen.nonce;\n"
    "    nonce_version := seen.nonce_version; revoked_version := seen.revoked_version;\n"
    "    note_token := seen.note_token; note_number := seen.note_number;\n"
    "    forgotten_version := seen.forgotten_version;\n"
    "    return next;\n"
    "  end loop;\n"
    "  if not writes then -- a place in the queue may be lost\n"
    "    settings := set_config('synchronous_commit', 'off', true);\n"
    "  end if;\n"
    "end $simba$;\n";

/* Several statements in one transaction. Two clients that come at once take turns. */
static const char make_sql[] =
    "select pg_advisory_xact_lock(hashtextextended('simba init @N', 0));\n"
    "create table if not exists @T (mutex text collate \"C\" not null primary key, acquired_at bigint not null, "
    "ttl_at bigint not null, transition_at bigint not null, owner_id text collate \"C\" not null, "
    "version bigint not null, nonce bigint, nonce_version bigint, revoked_version bigint) with (fillfactor = 70);\n"
    "alter table @T add column if not exists note bytea, add column if not exists note_written_at bigint, "
    "add column if not exists note_token bigint, add column if not exists note_number bigint, "
    "add column if not exists forgotten_version bigint;\n"
    "create unlogged table if not exists @W (mutex text collate \"C\" not null, nonce bigint not null, "
    "channel text not null, since bigint not null, until bigint not null, invited bigint not null, "
    "primary key (mutex, nonce)) with (fillfactor = 70);\n"
    "do $init$ begin if " FUNCTION " is null then execute $function$@F$function$; end if; end $init$";

static const char *const texts[SIMBA__PG_STATEMENTS] = {
    [SIMBA__PG_DECIDE] = "select * from @D($1::text[], $2)",
    [SIMBA__PG_LIST] = "select " COLUMNS ", " MARK ", " NOW ", " NOTE " from @T order by mutex",
    [SIMBA__PG_READ_NOTE] = "select w.name, acquired_at, ttl_at, transition_at, owner_id, version, nonce, "
                            "nonce_version, revoked_version, " MARK ", " NOW ", " NOTE
                            " from (select $1::text as name) w left join @T t on t.mutex = w.name",
    [SIMBA__PG_LOOK] = look_sql,
    [SIMBA__PG_MAKE_SCHEMA] = "create schema if not exists \"@S\"",
    [SIMBA__PG_MAKE] = make_sql,
    [SIMBA__PG_NOTIFY] = "select pg_notify($1, $2)",
};

/* With names[0] for @A, and so on. */
static char *fill_in(const char *text, const char *const names[26])
{
    simba__buffer out = {0};
    for (; *text; text++) {
        const char *name = *text == '@' ? names[*++text - 'A'] : NULL;
        simba__buffer_put(&out, name ? name : text, name ? strlen(name) : 1);
    }
    simba__buffer_put(&out, "", 1);
    if (out.failed)
        simba__buffer_free(&out);
    return out.data;
}

char *simba__pg_statement_text(simba__pg_statement statement, const simba__pg_options *options)
{
    char quoted[3][2 * SIMBA__PG_NAME_MAX + 24];
    static const char *const suffixes[] = {"", "_waiters", "_decide_4"};
    for (size_t i = 0; i < 3; i++)
        snprintf(quoted[i], sizeof quoted[i], options->schema[0] ? "\"%s\".\"%s%s\"" : "%s\"%s%s\"", options->schema,
                 options->table, suffixes[i]);
    const char *names[26] = {['T' - 'A'] = quoted[0],
                             ['W' - 'A'] = quoted[1],
                             ['D' - 'A'] = quoted[2],
                             ['S' - 'A'] = options->schema,
                             ['N' - 'A'] = options->table};
    char *function = fill_in(decide_sql, names);
    names['F' - 'A'] = function;
    char *text = function ? fill_in(texts[statement], names) : NULL;
    simba__free(function);
    return text;
}
