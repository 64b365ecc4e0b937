# The fuzz targets: <build directory>/simba-fuzz, one program with all of them, see tests/fuzz and scripts/fuzz. libFuzzer comes
# with clang. The program has its own copy of the sources that it needs, compiled with the sanitizers, so that any build by
# clang can make it; it is made when it is asked for.
if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang" OR SIMBA_SANITIZE OR
   NOT (SIMBA_WITH_SQLITE AND SIMBA_WITH_REDIS AND SIMBA_WITH_MYSQL AND SIMBA_WITH_ZOOKEEPER))
    return()
endif()

simba_glob(_sources tests/fuzz/*.c
    src/core/*.c src/util/*.c
    src/net/buffer.c src/net/endpoint.c src/net/resolve.c src/net/tls.c # connections are those of tests/fuzz/link.c
    src/runtime/requests.c
    src/backends/redis/*.c
    src/backends/sql/row.c
    src/backends/sqlite/db.c src/backends/sqlite/file.c src/backends/sqlite/note.c src/backends/sqlite/patience.c
    src/backends/sqlite/schema.c
    src/backends/zookeeper/frames.c src/backends/zookeeper/latch.c src/backends/zookeeper/names.c
    src/backends/zookeeper/options.c src/backends/zookeeper/record.c
    cli/config.c cli/options.c cli/secret.c cli/term.c cli/timeline/*.c)
set(_schedules 1)
if(NOT EXISTS "${PROJECT_SOURCE_DIR}/src/core/cron.c")
    set(_schedules 0)
    list(FILTER _sources EXCLUDE REGEX "/fuzz_schedules\\.c$")
endif()
add_executable(simba-fuzz EXCLUDE_FROM_ALL ${_sources})
target_include_directories(simba-fuzz PRIVATE
    "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_SOURCE_DIR}/cli")
target_compile_definitions(simba-fuzz PRIVATE SIMBA_STATIC FUZZ_SCHEDULES=${_schedules})
target_compile_options(simba-fuzz PRIVATE -O1 -g1 -UNDEBUG
    -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
target_link_options(simba-fuzz PRIVATE -fsanitize=fuzzer,address,undefined)
target_link_libraries(simba-fuzz PRIVATE
    simba_flags PkgConfig::SQLITE PkgConfig::REDIS simba_zookeeper_client)
set_target_properties(simba-fuzz PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
