/* Runs scripts as Redis does: by Lua 5.1, with KEYS, ARGV and redis.call. A script is compiled once per simulation, however
 * many servers are told of it; each server remembers by itself which it was told of. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdlib.h>
#include <string.h>

#include "sim/redis_model.h"
#include "stores/redis/redis.h"

struct sim_scripts {
    lua_State *lua;
    unsigned count;
    struct {
        char sha[41];
        int function;
        char *text;
        size_t length;
    } script[SIM_SCRIPTS];
};

static sim_server *server_of(lua_State *lua)
{
    lua_getfield(lua, LUA_REGISTRYINDEX, "server");
    sim_server *server = lua_touserdata(lua, -1);
    lua_pop(lua, 1);
    return server;
}

/* --- what redis.call answers ------------------------------------------------------------------------- */

static void push_one(lua_State *lua, sim_answer_kind kind, const sim_element *item)
{
    if (kind == ANSWER_NUMBER)
        lua_pushnumber(lua, (lua_Number)item->number);
    else if (kind == ANSWER_TEXT)
        lua_pushstring(lua, item->text);
    else
        lua_pushboolean(lua, false);
}

static void push_answer(lua_State *lua, const sim_answer *answer)
{
    if (answer->kind == ANSWER_STATUS) {
        lua_newtable(lua);
        lua_pushstring(lua, answer->item[0].text);
        lua_setfield(lua, -2, "ok");
    } else if (answer->kind == ANSWER_LIST) {
        lua_createtable(lua, (int)answer->count, 0);
        for (unsigned i = 0; i < answer->count; i++) {
            push_one(lua, answer->item[i].kind, &answer->item[i]);
            lua_rawseti(lua, -2, (int)i + 1);
        }
    } else {
        push_one(lua, answer->kind, &answer->item[0]);
    }
}

static int call_of_lua(lua_State *lua)
{
    const char *argv[SIM_WORDS];
    const int argc = lua_gettop(lua);
    if (argc < 1 || argc > SIM_WORDS)
        return luaL_error(lua, "redis.call with %d words", argc);
    char number[SIM_ELEMENTS][32];
    for (int i = 0; i < argc; i++) {
        argv[i] = luaL_checkstring(lua, i + 1);
        if (lua_type(lua, i + 1) != LUA_TNUMBER || i >= SIM_ELEMENTS)
            continue;
        snprintf(number[i], sizeof number[i], "%.17g", lua_tonumber(lua, i + 1)); /* as Redis does */
        argv[i] = number[i];
    }
    sim_answer answer;
    if (!commands_run(server_of(lua), argc, argv, &answer))
        return luaL_error(lua, "the model does not know the command %s", argv[0]);
    push_answer(lua, &answer);
    return 1;
}

static int error_reply(lua_State *lua)
{
    lua_newtable(lua);
    lua_pushvalue(lua, 1);
    lua_setfield(lua, -2, "err");
    return 1;
}

/* --- what a script answers --------------------------------------------------------------------------- */

static bool take_one(lua_State *lua, sim_element *ret_item)
{
    switch (lua_type(lua, -1)) {
    case LUA_TNUMBER:
        ret_item->kind = ANSWER_NUMBER;
        ret_item->number = (int64_t)lua_tonumber(lua, -1);
        return true;
    case LUA_TSTRING:
        ret_item->kind = ANSWER_TEXT;
        snprintf(ret_item->text, sizeof ret_item->text, "%s", lua_tostring(lua, -1));
        return true;
    case LUA_TBOOLEAN:
        ret_item->kind = lua_toboolean(lua, -1) ? ANSWER_NUMBER : ANSWER_NIL;
        ret_item->number = 1;
        return true;
    default:
        return false;
    }
}

/* Add the items of a list, and of a list in it; returns how many there are. */
static unsigned take_items(lua_State *lua, sim_answer *ret_answer)
{
    unsigned count = 0;
    for (bool more = true; more && ret_answer->count < SIM_ELEMENTS; count += more) {
        lua_rawgeti(lua, -1, (int)count + 1);
        sim_element *item = &ret_answer->item[ret_answer->count];
        more = lua_istable(lua, -1) || take_one(lua, item);
        ret_answer->count += more;
        if (lua_istable(lua, -1)) {
            item->kind = ANSWER_LIST;
            item->number = take_items(lua, ret_answer);
        }
        lua_pop(lua, 1);
    }
    return count;
}

static void take_list(lua_State *lua, sim_answer *ret_answer)
{
    ret_answer->kind = ANSWER_LIST;
    ret_answer->count = 0;
    take_items(lua, ret_answer);
}

static void take_answer(lua_State *lua, sim_answer *ret_answer)
{
    if (lua_istable(lua, -1)) {
        lua_getfield(lua, -1, "err");
        const char *error = lua_tostring(lua, -1);
        if (error)
            answer_text(ret_answer, ANSWER_ERROR, error);
        lua_pop(lua, 1);
        if (!error)
            take_list(lua, ret_answer);
    } else if (take_one(lua, &ret_answer->item[0]))
        ret_answer->kind = ret_answer->item[0].kind;
    else
        ret_answer->kind = ANSWER_NIL;
}

/* --- scripts ---------------------------------------------------------------------------------------- */

static void set_words(lua_State *lua, const char *name, int count, const char *const *words)
{
    lua_createtable(lua, count, 0);
    for (int i = 0; i < count; i++) {
        lua_pushstring(lua, words[i]);
        lua_rawseti(lua, -2, i + 1);
    }
    lua_setglobal(lua, name);
}

void scripts_run(sim_scripts *scripts, sim_server *server, unsigned script, int keys, int argc, const char *const *argv,
                 sim_answer *ret_answer)
{
    lua_State *lua = scripts->lua;
    lua_pushlightuserdata(lua, server);
    lua_setfield(lua, LUA_REGISTRYINDEX, "server");
    set_words(lua, "KEYS", keys, argv);
    set_words(lua, "ARGV", argc - keys, argv + keys);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, scripts->script[script].function);
    if (lua_pcall(lua, 0, 1, 0) != 0) {
        fprintf(stderr, "simba-sim: a script fails: %s\n", lua_tostring(lua, -1));
        abort();
    }
    take_answer(lua, ret_answer);
    lua_settop(lua, 0);
}

/* The SHA-1 of a script of ours. Another one is called by nobody. */
static void name_script(const char *text, size_t length, char out[41])
{
    for (unsigned i = 0; i < REDIS_SCRIPTS; i++)
        if (strlen(simba__redis_scripts[i].text) == length && memcmp(simba__redis_scripts[i].text, text, length) == 0) {
            strcpy(out, simba__redis_scripts[i].sha);
            return;
        }
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    snprintf(out, 41, "%016llx%024llx", (unsigned long long)hash, (unsigned long long)length);
}

int scripts_find(const sim_scripts *scripts, const char *sha)
{
    for (unsigned i = 0; i < scripts->count; i++)
        if (strcmp(scripts->script[i].sha, sha) == 0)
            return (int)i;
    return -1;
}

unsigned scripts_load(sim_scripts *scripts, const char *text, size_t length)
{
    for (unsigned i = 0; i < scripts->count; i++)
        if (scripts->script[i].length == length && memcmp(scripts->script[i].text, text, length) == 0)
            return i;
    if (scripts->count == SIM_SCRIPTS || luaL_loadbuffer(scripts->lua, text, length, "@script") != 0) {
        fprintf(stderr, "simba-sim: a script cannot be loaded: %s\n", lua_tostring(scripts->lua, -1));
        abort();
    }
    scripts->script[scripts->count].function = luaL_ref(scripts->lua, LUA_REGISTRYINDEX);
    scripts->script[scripts->count].text = strndup(text, length);
    scripts->script[scripts->count].length = length;
    name_script(text, length, scripts->script[scripts->count].sha);
    return scripts->count++;
}

sim_scripts *scripts_new(void)
{
    sim_scripts *scripts = calloc(1, sizeof *scripts);
    if (!scripts || !(scripts->lua = luaL_newstate()))
        abort();
    luaL_openlibs(scripts->lua);
    lua_newtable(scripts->lua);
    lua_pushcfunction(scripts->lua, call_of_lua);
    lua_setfield(scripts->lua, -2, "call");
    lua_pushcfunction(scripts->lua, error_reply);
    lua_setfield(scripts->lua, -2, "error_reply");
    lua_setglobal(scripts->lua, "redis");
    return scripts;
}

void scripts_free(sim_scripts *scripts)
{
    for (unsigned i = 0; i < scripts->count; i++)
        free(scripts->script[i].text);
    lua_close(scripts->lua);
    free(scripts);
}
