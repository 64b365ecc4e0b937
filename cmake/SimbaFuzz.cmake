# The fuzz targets: <build directory>/simba-fuzz, one program with all of them, see tests/fuzz and scripts/fuzz. libFuzzer comes
# with clang. The program has its own copy of the sources that it needs, compiled with the sanitizers, so that any build by
# clang can make it; it is made when it is asked for.
if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang" OR SIMBA_SANITIZE OR
   NOT (SIMBA_WITH_SQLITE AND SIMBA_WITH_REDIS AND SIMBA_WITH_MYSQL AND SIMBA_WITH_POSTGRESQL AND SIMBA_WITH_ZOOKEEPER AND
        SIMBA_WITH_ETCD))
    return()
endif()

simba_glob(_targets tests/fuzz/*.c tests/lib/*_speech.c tests/lib/testhost.c)
set(_schedules 1)
if(NOT EXISTS "${PROJECT_SOURCE_DIR}/src/core/cron.c")
    set(_schedules 0)
    list(FILTER _targets EXCLUDE REGEX "/fuzz_schedules\\.c$")
endif()
simba_glob(_sources
    src/core/*.c src/util/*.c
    src/net/buffer.c src/net/endpoint.c src/net/link.c src/net/reactor.c src/net/resolver.c src/net/tls.c
    src/net/http_parser.c src/net/json.c src/net/json_put.c
    src/client/window.c
    src/stores/sql/*.c src/stores/postgresql/*.c src/stores/mysql/*.c
    src/stores/sqlite/db.c src/stores/sqlite/rows.c src/stores/sqlite/decide.c src/stores/sqlite/file.c
    src/stores/sqlite/share.c src/stores/sqlite/wake.c
    src/stores/zookeeper/*.c
    src/stores/etcd/wire.c
    src/stores/kubernetes/lease.c
    cli/config.c cli/options.c cli/secret.c cli/term.c tools/timeline/*.c)
list(FILTER _sources EXCLUDE REGEX "/timeline/command\\.c$") # the command

_simba_store_sources(_redis redis)
list(APPEND _sources ${_redis})

add_library(simba_fuzz_flags INTERFACE)
target_include_directories(simba_fuzz_flags INTERFACE
    "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_SOURCE_DIR}/cli" "${PROJECT_SOURCE_DIR}/tools")
target_compile_definitions(simba_fuzz_flags INTERFACE SIMBA_STATIC FUZZ_SCHEDULES=${_schedules})
target_compile_options(simba_fuzz_flags INTERFACE -O1 -g1 -UNDEBUG
    -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
target_link_options(simba_fuzz_flags INTERFACE -fsanitize=fuzzer,address,undefined)
target_link_libraries(simba_fuzz_flags INTERFACE simba_flags PkgConfig::SQLITE PkgConfig::REDIS simba_postgresql_client
    simba_mysql_client simba_zookeeper_client)

# The copy of the product's sources is left out of the list of commands: clang-tidy would look at them twice.
add_library(simba_fuzz_objects OBJECT EXCLUDE_FROM_ALL ${_sources})
set_target_properties(simba_fuzz_objects PROPERTIES EXPORT_COMPILE_COMMANDS OFF)
target_link_libraries(simba_fuzz_objects PRIVATE simba_fuzz_flags)
add_executable(simba-fuzz EXCLUDE_FROM_ALL ${_targets})
target_link_libraries(simba-fuzz PRIVATE simba_fuzz_flags $<TARGET_OBJECTS:simba_fuzz_objects>)
set_target_properties(simba-fuzz PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
