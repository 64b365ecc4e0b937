# The tests. Every test is a program that prints TAP, run by ctest through scripts/tap-run, which keeps what it printed
# in <build directory>/tap/<name>.{tap,err,rc}; ./test counts those files.
#
#   tests/unit/*.c                         unit.*       internal symbols, no store
#   tests/{sim,backends,api,faults,cli}/test_*.c        internal symbols, the kit, tests/lib, support.c beside it if any
#   tests/cpp/test_*.cpp                  cpp.*        the public header simba.hpp alone, with and without exceptions
#   cli.completions                                     the completions of the shells, by the shells
#   cli.serve_api                                       the answers of `simba serve`, held against docs/openapi.json
#   cli.hold_lines                                      the lines of `simba hold`, held against docs/hold.schema.json
#   systemd.units                                       the unit templates under a real systemd; runs when it is asked for
#   torture.redis                                       half a minute of tests/torture, see docs/proof.md
#   kubernetes.{server,tck,manifest,fight}                  on Kubernetes' API server, see tests/kubernetes; run when they are asked for
#   browser.page                                        its page in a real browser, see tests/browser; runs when it is asked for
#   bench.{floors,peers}                                bench/check and bench/peers/check; not with sanitizers
#   cli.torture_<store>                                 `simba torture` on the store, see simba_torture_store
#   cli.units, cli.contrib                              systemd's unit templates, and what is in contrib/
#   tck.<store>                                         the conformance kit, see simba_tck_store
#   examples.*                                          must end with status 0, see tests/examples
#   install.{consumer,docs,release}                     see tests/install, tests/docs, tests/release
#   python.{types,example,<store>}                      see bindings/python; like install, not with sanitizers
#   package.{debian,bare,tarball,kernel,python,site}    see tests/package, scripts/site; run when they are asked for

pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)

# What a test does not bring along must not come from the machine it runs on.
file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/tap" "${PROJECT_BINARY_DIR}/tck" "${PROJECT_BINARY_DIR}/tests/home")
set(_test_environment
    CMOCKA_MESSAGE_OUTPUT=TAP
    SIMBA_TEST_SLOWNESS=${SIMBA_TEST_SLOWNESS}
    "HOME=${PROJECT_BINARY_DIR}/tests/home"
    "ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1"
    "UBSAN_OPTIONS=print_stacktrace=1"
    "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1")
set(_test_environment_changes
    SIMBA_URL=unset: XDG_DATA_HOME=unset: XDG_STATE_HOME=unset: XDG_CONFIG_HOME=unset: XDG_RUNTIME_DIR=unset:)

# ThreadSanitizer and a kernel that spreads mappings widely do not get along.
set(_launcher ${SIMBA_TEST_LAUNCHER})
if(SIMBA_SANITIZE MATCHES "thread")
    execute_process(COMMAND setarch -R true RESULT_VARIABLE _status OUTPUT_QUIET ERROR_QUIET)
    if(_status EQUAL 0)
        list(PREPEND _launcher setarch -R)
    endif()
endif()

# How many seconds the long tests take, roughly: the first pattern that matches counts. ctest begins with them, so that no long one is
# left alone at the end.
set(_test_costs
    "^sim\\.(sim|promises)$|^tck\\.kubernetes$=90"
    "^sim\\.(explore|schedules)$=50"
    "^faults\\.redis_(cluster|outage)$=70"
    "^faults\\.(mysql|postgresql)$=60"
    "^backends\\.(postgresql_failover|etcd_memory)$=60"
    "^tck\\.redis=60"
    "^tck\\.|^mysql8\\.tck$=50"
    "^faults\\.exit$|^faults\\.sweep_alloc|^install\\.docs$=45"
    "^backends\\.(zookeeper_hostile|etcd_hostile|zookeeper_interop|postgresql|mysql_errors)$|^cli\\.(run|run_lost|service|leave|completions)$=30"
    "^faults\\.|^torture\\.|^python\\.|^install\\.|^examples\\.hold$=20"
    "^cli\\.=10")

# _simba_add_test(<label> <name> [PLAIN] COMMAND <command>…): PLAIN programs print no TAP, their exit status is the case.
function(_simba_add_test label name)
    cmake_parse_arguments(PARSE_ARGV 2 arg "PLAIN" "" "COMMAND")
    set(full ${label}.${name})
    set(plain "")
    if(arg_PLAIN)
        set(plain --plain)
    endif()
    add_test(NAME ${full}
        COMMAND "${PROJECT_SOURCE_DIR}/scripts/tap-run" ${plain} "${PROJECT_BINARY_DIR}/tap/${full}" ${arg_COMMAND})
    set_tests_properties(${full} PROPERTIES
        LABELS ${label} TIMEOUT ${SIMBA_TEST_TIMEOUT} WORKING_DIRECTORY "${PROJECT_BINARY_DIR}/tests"
        ENVIRONMENT "${_test_environment}" ENVIRONMENT_MODIFICATION "${_test_environment_changes}")
    foreach(_pair IN LISTS _test_costs)
        string(REGEX MATCH "^(.*)=([0-9]+)$" _pair "${_pair}")
        set(_seconds "${CMAKE_MATCH_2}")
        if(full MATCHES "${CMAKE_MATCH_1}")
            set_tests_properties(${full} PROPERTIES COST ${_seconds})
            break()
        endif()
    endforeach()
endfunction()

add_library(simba_tap_stdout OBJECT "${PROJECT_SOURCE_DIR}/tests/tap_stdout.c")
target_link_libraries(simba_tap_stdout PRIVATE simba_flags)

# The helpers of tests/lib, if there are any yet, and all that a test links.
add_library(simba_test_base INTERFACE)
target_include_directories(simba_test_base INTERFACE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests")
target_compile_options(simba_test_base INTERFACE -UNDEBUG)
target_compile_definitions(simba_test_base INTERFACE "SIMBA_TEST_SOURCES=\"${PROJECT_SOURCE_DIR}/tests\"")
# A test, or a table of functions that a test fills in, need not use all that it is given. Linked last: for Clang the last word counts.
add_library(simba_test_warnings INTERFACE)
target_compile_options(simba_test_warnings INTERFACE -Wno-unused-parameter)
target_link_libraries(simba_test_base INTERFACE simba_flags PkgConfig::CMOCKA simba_test_warnings)
if(TARGET simba_tck_static)
    target_link_libraries(simba_test_base INTERFACE simba_tck_static)
endif()
target_link_libraries(simba_test_base INTERFACE simba_static)
if(TARGET PkgConfig::SQLITE)
    target_link_libraries(simba_test_base INTERFACE PkgConfig::SQLITE) # tests look into the store's file
endif()
if(TARGET PkgConfig::REDIS)
    target_link_libraries(simba_test_base INTERFACE PkgConfig::REDIS) # and play other clients of the server
endif()
if(TARGET PkgConfig::MYSQL)
    target_link_libraries(simba_test_base INTERFACE PkgConfig::MYSQL)
endif()
if(TARGET simba_postgresql_client)
    target_link_libraries(simba_test_base INTERFACE simba_postgresql_client)
endif()
if(SIMBA_WITH_ZOOKEEPER)
    # Apache's client, which has nothing in common with the store: tests/lib/raw_zookeeper.c.
    find_library(SIMBA_ZOOKEEPER_LIBRARY zookeeper_st REQUIRED)
    find_path(SIMBA_ZOOKEEPER_INCLUDE_DIR zookeeper/zookeeper.h REQUIRED)
    mark_as_advanced(SIMBA_ZOOKEEPER_LIBRARY SIMBA_ZOOKEEPER_INCLUDE_DIR)
    target_link_libraries(simba_test_base INTERFACE simba_zookeeper_client "${SIMBA_ZOOKEEPER_LIBRARY}")
    target_include_directories(simba_test_base SYSTEM INTERFACE "${SIMBA_ZOOKEEPER_INCLUDE_DIR}")
endif()
# The tests' own API server, tests/lib/fake_kubernetes.c.
pkg_check_modules(API_SERVER REQUIRED IMPORTED_TARGET jansson openssl)
target_link_libraries(simba_test_base INTERFACE PkgConfig::API_SERVER)
if(TARGET simba)
    target_compile_definitions(simba_test_base INTERFACE "SIMBA_TEST_COMMAND=\"$<TARGET_FILE:simba>\"")
endif()
simba_glob(_sources tests/lib/*.c)
if(_sources)
    add_library(simba_test_lib STATIC ${_sources})
    target_link_libraries(simba_test_lib PUBLIC simba_test_base)
endif()

add_custom_target(quick) # what `./test quick` runs
add_custom_target(install-tests) # and `./test install`

function(_simba_test_program label source)
    get_filename_component(name ${source} NAME_WE)
    string(REGEX REPLACE "^test_" "" name ${name})
    set(target test_${label}_${name})
    simba_glob(support tests/${label}/support.c)
    if(support AND NOT TARGET simba_test_support_${label})
        add_library(simba_test_support_${label} OBJECT ${support})
        target_link_libraries(simba_test_support_${label} PRIVATE simba_test_lib)
    endif()
    add_executable(${target} ${source})
    if(support)
        target_link_libraries(${target} PRIVATE simba_test_support_${label})
    endif()
    if(TARGET simba_test_lib)
        target_link_libraries(${target} PRIVATE simba_test_lib)
    endif()
    target_link_libraries(${target} PRIVATE simba_tap_stdout simba_test_base)
    if(TARGET simba)
        add_dependencies(${target} simba)
    endif()
    if(label MATCHES "^(unit|api)$")
        add_dependencies(quick ${target})
    endif()
    set_target_properties(${target} PROPERTIES
        OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/${label}")
    _simba_add_test(${label} ${name} COMMAND ${_launcher} $<TARGET_FILE:${target}>)
endfunction()

# simba_unit_test(<name>): tests/unit/<name>.c.
function(simba_unit_test name)
    _simba_test_program(unit "${PROJECT_SOURCE_DIR}/tests/unit/${name}.c")
endfunction()

simba_glob(_programs tests/unit/*.c)
foreach(_source IN LISTS _programs)
    get_filename_component(_name ${_source} NAME_WE)
    if((_name MATCHES "^test_zk_" AND NOT SIMBA_WITH_ZOOKEEPER) OR (_name MATCHES "^test_etcd_" AND NOT SIMBA_WITH_ETCD) OR (_name MATCHES "^test_sql_" AND NOT TARGET simba_store_sql) OR
       (_name MATCHES "^test_(kube_|versioned)" AND NOT SIMBA_WITH_KUBERNETES) OR
       (_name MATCHES "^test_(http|json)" AND NOT TARGET simba_net_http) OR
       (_name MATCHES "^test_postgresql_" AND NOT SIMBA_WITH_POSTGRESQL) OR
       (_name MATCHES "^test_mysql_" AND NOT SIMBA_WITH_MYSQL) OR (_name MATCHES "^test_redis_" AND NOT SIMBA_WITH_REDIS))
        continue() # that store was left out
    endif()
    simba_unit_test(${_name})
endforeach()
set(_labels sim backends api faults cli mysql8)
if(SIMBA_SANITIZE MATCHES "thread")
    list(REMOVE_ITEM _labels sim) # the simulator has one thread
endif()
foreach(_label IN LISTS _labels)
    simba_glob(_programs tests/${_label}/test_*.c)
    foreach(_source IN LISTS _programs)
        # test_STORE… is about a store that may have been left out.
        get_filename_component(_name ${_source} NAME_WE)
        string(REGEX REPLACE "^test_([a-z]+).*" "\\1" _store ${_name})
        string(TOUPPER ${_store} _store)
        if(_store STREQUAL SERVE AND NOT TARGET PkgConfig::HTTP)
            continue() # so may `simba serve`
        endif()
        # These are about code of one thread, or about what one thread makes of bytes or of another program, or run the kit, whose
        # threads are seen elsewhere: ThreadSanitizer need not see it.
        if(SIMBA_SANITIZE MATCHES "thread" AND _source MATCHES
                "/(cli/test_(status_listen|notify|timeline|[a-z_]*torture[a-z_]*)|backends/test_[a-z]+_(memory|hostile|failover|interop|packets)|faults/test_zookeeper_divided)\\.c$")
            continue()
        endif()
        if(NOT DEFINED SIMBA_WITH_${_store} OR SIMBA_WITH_${_store})
            _simba_test_program(${_label} ${_source})
        endif()
    endforeach()
endforeach()

# One test of `simba serve` is about some of its files by themselves.
if(TARGET test_cli_serve_table)
    simba_glob(_sources cli/serve/table.c cli/serve/access.c cli/shown.c)
    target_sources(test_cli_serve_table PRIVATE ${_sources})
    target_include_directories(test_cli_serve_table PRIVATE "${PROJECT_SOURCE_DIR}/cli")
endif()

# Some tests of `simba torture` are about parts of it.
if(TARGET test_cli_torture_judge)
    simba_glob(_sources tools/torture/history.c tools/torture/judge.c tools/torture/plan.c tools/torture/evidence.c)
    target_sources(test_cli_torture_judge PRIVATE ${_sources})
    target_include_directories(test_cli_torture_judge PRIVATE "${PROJECT_SOURCE_DIR}/cli" "${PROJECT_SOURCE_DIR}/tools")
    simba_glob(_sources tools/torture/proxy.c tools/torture/rewrite.c)
    target_sources(test_cli_torture_network PRIVATE ${_sources})
    target_include_directories(test_cli_torture_network PRIVATE "${PROJECT_SOURCE_DIR}/cli" "${PROJECT_SOURCE_DIR}/tools")
endif()
# Another one has a contender whose clock is slow, by a library that is loaded before ours.
if(TARGET test_cli_redis_torture)
    add_library(slow_clock MODULE "${PROJECT_SOURCE_DIR}/tests/cli/slow_clock.c")
    target_link_libraries(slow_clock PRIVATE simba_flags ${CMAKE_DL_LIBS})
    set_target_properties(slow_clock PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/cli")
    add_dependencies(test_cli_redis_torture slow_clock)
    target_compile_definitions(test_cli_redis_torture PRIVATE "SIMBA_TEST_SLOW_CLOCK=\"$<TARGET_FILE:slow_clock>\"")
endif()

# These measure what is promised in real time, to a quarter of a second: no other test runs beside them.
foreach(_name IN ITEMS faults.limits faults.zookeeper_outage faults.etcd_outage)
    if(TEST ${_name})
        set_tests_properties(${_name} PROPERTIES RUN_SERIAL TRUE)
    endif()
endforeach()

# --- sim ------------------------------------------------------------------------------------------
# The simulator, for its tests and for <build directory>/simba-sim, the long run.
set(_unless_thread "")
if(SIMBA_SANITIZE MATCHES "thread")
    set(_unless_thread EXCLUDE_FROM_ALL)
endif()
simba_glob(_sources tests/sim/*.c)
list(FILTER _sources EXCLUDE REGEX "/(main|test_[a-z_]+)\\.c$")
if(NOT SIMBA_WITH_REDIS)
    list(FILTER _sources EXCLUDE REGEX "/redis_[a-z_]+\\.c$")
endif()
if(NOT SIMBA_WITH_ZOOKEEPER)
    list(FILTER _sources EXCLUDE REGEX "/zk_[a-z_]+\\.c$")
endif()
if(NOT SIMBA_WITH_ETCD)
    list(FILTER _sources EXCLUDE REGEX "/etcd_[a-z_]+\\.c$")
endif()
if(NOT SIMBA_WITH_MYSQL)
    list(FILTER _sources EXCLUDE REGEX "/sql_[a-z_]+\\.c$")
endif()
if(NOT SIMBA_WITH_KUBERNETES)
    list(FILTER _sources EXCLUDE REGEX "/kube_[a-z_]+\\.c$")
endif()
simba_glob(_timeline tools/timeline/*.c cli/term.c)
list(FILTER _timeline EXCLUDE REGEX "/timeline/command\\.c$") # the command
# Objects and not an archive: what it defines in place of a store's connections has to come before the library's own.
add_library(simba_sim OBJECT ${_unless_thread} ${_sources} ${_timeline})
target_include_directories(simba_sim PRIVATE "${PROJECT_SOURCE_DIR}/cli" "${PROJECT_SOURCE_DIR}/tools")
# A model of Redis runs our scripts by the Lua that Redis has.
pkg_check_modules(LUA REQUIRED IMPORTED_TARGET lua5.1)
target_link_libraries(simba_sim PUBLIC PkgConfig::LUA)
target_link_libraries(simba_sim PUBLIC simba_test_lib simba_test_base)
target_compile_definitions(simba_sim PUBLIC "SIMBA_SOURCE_DIR=\"${PROJECT_SOURCE_DIR}\"")
simba_glob(_programs tests/sim/test_*.c)
foreach(_source IN LISTS _programs)
    get_filename_component(_name ${_source} NAME_WE)
    string(REGEX REPLACE "^test_" "test_sim_" _name ${_name})
    if(TARGET ${_name})
        target_link_libraries(${_name} PRIVATE simba_sim)
    endif()
endforeach()
add_executable(simba-sim ${_unless_thread} "${PROJECT_SOURCE_DIR}/tests/sim/main.c")
target_link_libraries(simba-sim PRIVATE simba_sim)
set_target_properties(simba-sim PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
# The same with the switches of docs/museum.md: copies of the sources that tests/sim/exhibits changes come before the library's own.
find_package(Python3 COMPONENTS Interpreter REQUIRED)
set(_exhibits "${PROJECT_BINARY_DIR}/generated/exhibits")
set(_changed "${PROJECT_SOURCE_DIR}/tests/sim/exhibits")
file(STRINGS "${_changed}" _lines REGEX "^in ")
set(_copies "")
set(_originals "")
foreach(_line IN LISTS _lines)
    string(REGEX REPLACE "^in ([^ ]*).*" "\\1" _original "${_line}")
    string(REPLACE "/" "_" _copy "${_original}")
    list(APPEND _originals "${PROJECT_SOURCE_DIR}/${_original}")
    list(APPEND _copies "${_exhibits}/${_copy}")
endforeach()
list(REMOVE_DUPLICATES _originals)
list(REMOVE_DUPLICATES _copies)
add_custom_command(OUTPUT ${_copies} "${_exhibits}/exhibits.inc" VERBATIM
    DEPENDS "${_changed}" "${_changed}.py" ${_originals}
    COMMAND "${Python3_EXECUTABLE}" "${_changed}.py" "${_changed}" "${PROJECT_SOURCE_DIR}" "${_exhibits}")
add_executable(simba-museum "${PROJECT_SOURCE_DIR}/tests/sim/main.c" "${_exhibits}/exhibits.inc" ${_copies})
target_compile_definitions(simba-museum PRIVATE SIM_EXHIBITS)
target_include_directories(simba-museum PRIVATE "${_exhibits}")
target_link_libraries(simba-museum PRIVATE simba_sim)
set_target_properties(simba-museum PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
# Its search takes a sanitized simulator ten times as long, and is about none of our memory.
if(SIMBA_WITH_REDIS AND SIMBA_WITH_ZOOKEEPER AND NOT SIMBA_SANITIZE AND NOT SIMBA_TEST_LAUNCHER)
    _simba_add_test(install museum COMMAND "${PROJECT_SOURCE_DIR}/tests/sim/museum" $<TARGET_FILE:simba-sim> "${_changed}")
    add_dependencies(install-tests simba-sim simba-museum)
else()
    set_target_properties(simba-museum PROPERTIES EXCLUDE_FROM_ALL TRUE)
endif()

if(TARGET simba AND NOT SIMBA_SANITIZE MATCHES "thread")
    _simba_add_test(cli completions COMMAND "${PROJECT_SOURCE_DIR}/tests/cli/completions"
        "${PROJECT_SOURCE_DIR}/packaging/completions" $<TARGET_FILE:simba>)
    _simba_add_test(cli hold_lines COMMAND "${PROJECT_SOURCE_DIR}/tests/cli/hold_lines" $<TARGET_FILE:simba>
        "${PROJECT_SOURCE_DIR}")
    _simba_add_test(cli units COMMAND "${PROJECT_SOURCE_DIR}/tests/cli/units"
        "${PROJECT_SOURCE_DIR}/packaging/systemd" $<TARGET_FILE:simba>)
    _simba_add_test(systemd units COMMAND "${PROJECT_SOURCE_DIR}/tests/systemd/run"
        "${PROJECT_SOURCE_DIR}/packaging/systemd" $<TARGET_FILE:simba>)
    _simba_add_test(cli contrib COMMAND "${PROJECT_SOURCE_DIR}/tests/cli/contrib"
        "${PROJECT_SOURCE_DIR}/contrib" $<TARGET_FILE:simba>)
endif()
if(TARGET simba AND TARGET PkgConfig::HTTP)
    _simba_add_test(cli serve_api COMMAND "${PROJECT_SOURCE_DIR}/tests/cli/serve_api" $<TARGET_FILE:simba>
        "${PROJECT_SOURCE_DIR}")
    # A crowd of ten thousand contenders, for the page.
    add_executable(crowd "${PROJECT_SOURCE_DIR}/tests/browser/crowd.c")
    target_link_libraries(crowd PRIVATE simba_flags simba_shared)
    set_target_properties(crowd PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/browser")
    _simba_add_test(browser page COMMAND "${PROJECT_SOURCE_DIR}/tests/browser/run" $<TARGET_FILE:simba> $<TARGET_FILE:crowd>)
endif()

# --- bench ----------------------------------------------------------------------------------------
# Do the floors and the comparison with other locks work? What they would measure of a sanitized library means nothing.
if(SIMBA_BENCH AND TARGET peer_simba AND NOT SIMBA_SANITIZE AND NOT SIMBA_TEST_LAUNCHER)
    if(TARGET bench_idle)
        _simba_add_test(bench floors COMMAND "${PROJECT_SOURCE_DIR}/bench/check" "${PROJECT_BINARY_DIR}")
    endif()
    _simba_add_test(bench peers COMMAND "${PROJECT_SOURCE_DIR}/bench/peers/check" "${PROJECT_BINARY_DIR}")
endif()

# --- tck ------------------------------------------------------------------------------------------
if(TARGET simba_tck)
    add_executable(tck_runner "${PROJECT_SOURCE_DIR}/tests/tck_runner.c")
    target_link_libraries(tck_runner PRIVATE simba_flags simba_tap_stdout simba_tck)
    add_executable(with_server "${PROJECT_SOURCE_DIR}/tests/with_server.c")
    target_link_libraries(with_server PRIVATE simba_test_lib)
    add_dependencies(quick tck_runner with_server)
    add_dependencies(install-tests with_server)
    set_target_properties(tck_runner with_server PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
endif()

# What ./test kubernetes runs on the real API server, besides the kit.
if(TARGET with_server AND TARGET test_backends_kubernetes_server)
    _simba_add_test(kubernetes server COMMAND $<TARGET_FILE:with_server> kube-apiserver
        ${_launcher} $<TARGET_FILE:test_backends_kubernetes_server> %PORT% %DIR%)
    if(TARGET simba)
        _simba_add_test(kubernetes fight COMMAND $<TARGET_FILE:with_server> kube-apiserver
            "${PROJECT_SOURCE_DIR}/tests/kubernetes/fight" %PORT% %DIR% $<TARGET_FILE:simba>)
        _simba_add_test(kubernetes manifest COMMAND $<TARGET_FILE:with_server> kube-apiserver
            "${PROJECT_SOURCE_DIR}/tests/kubernetes/manifest" %PORT% %DIR% "${PROJECT_SOURCE_DIR}/contrib/kubernetes" $<TARGET_FILE:simba>)
    endif()
endif()

# simba_faults_store(<program> <name> <url> [AS <test>] ON <kind> [ONCE]): tests/faults/test_<program>.c on the store of a URL, as
# faults.<program>_<name>, or <program>_<test>. ON and ONCE: see simba_tck_store.
function(simba_faults_store program name url)
    cmake_parse_arguments(PARSE_ARGV 3 arg "ONCE" "AS;ON" "")
    if(arg_ONCE AND SIMBA_SANITIZE MATCHES "thread")
        return()
    endif()
    if(NOT arg_AS)
        set(arg_AS ${name})
    endif()
    if(TARGET test_faults_${program} AND name IN_LIST SIMBA_BACKENDS)
        _simba_add_test(faults ${program}_${arg_AS}
            COMMAND $<TARGET_FILE:with_server> ${arg_ON} ${_launcher} $<TARGET_FILE:test_faults_${program}> ${url})
    endif()
endfunction()

# simba_torture_store(<name> <url> ON <kind>): a moment of `simba torture` against a store that is well, as cli.torture_<name>. One
# build is enough: it is the stores that are tortured, and other tests have seen their threads.
function(simba_torture_store name url)
    cmake_parse_arguments(PARSE_ARGV 2 arg "" "ON" "")
    if(TARGET simba AND TARGET with_server AND name IN_LIST SIMBA_BACKENDS AND NOT SIMBA_SANITIZE MATCHES "thread")
        _simba_add_test(cli torture_${name} COMMAND $<TARGET_FILE:with_server> ${arg_ON}
            "${PROJECT_SOURCE_DIR}/tests/cli/torture_store" $<TARGET_FILE:simba> ${url})
    endif()
endfunction()

# simba_tck_store(<name> <url> [AS <test>] [ON <kind>] [LABEL <label>] [ONLY <pattern>] [ONCE]): run the conformance kit against a store
# as tck.<name>, or <label>.<test>, if that store is built, or only the cases that match ONLY. ON: with a server of this kind, whose port and folder are filled into the URL, see
# tests/with_server.c. ONCE: it has no threads that another one of these does not have, so that ThreadSanitizer need not see it.
function(simba_tck_store name url)
    cmake_parse_arguments(PARSE_ARGV 2 arg "ONCE" "AS;ON;LABEL;ONLY" "")
    if(arg_ONCE AND SIMBA_SANITIZE MATCHES "thread")
        return()
    endif()
    if(NOT arg_LABEL)
        set(arg_LABEL tck)
    endif()
    if(NOT arg_AS)
        set(arg_AS ${name})
    endif()
    if(TARGET tck_runner AND name IN_LIST SIMBA_BACKENDS)
        set(server "")
        if(arg_ON)
            set(server $<TARGET_FILE:with_server> ${arg_ON})
        endif()
        _simba_add_test(${arg_LABEL} ${arg_AS} COMMAND ${server} ${_launcher} $<TARGET_FILE:tck_runner> ${url} ${arg_ONLY})
    endif()
endfunction()

# --- real servers under fire, see tests/torture ---------------------------------------------------
# The programs of the test see the public header and the shared library, as programs of users do.
foreach(_name IN ITEMS net register client churn)
    add_executable(torture_${_name} "${PROJECT_SOURCE_DIR}/tests/torture/${_name}.c")
    target_link_libraries(torture_${_name} PRIVATE simba_flags simba_shared)
    set_target_properties(torture_${_name} PROPERTIES
        OUTPUT_NAME ${_name} RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/torture")
endforeach()
simba_glob(_sources tools/torture/history.c src/net/json.c src/util/escape.c) # the lines of a history
target_sources(torture_client PRIVATE ${_sources})
target_include_directories(torture_client PRIVATE "${PROJECT_SOURCE_DIR}/cli" "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tools")
if(TARGET simba AND SIMBA_WITH_REDIS AND NOT SIMBA_SANITIZE MATCHES "thread" AND NOT SIMBA_TEST_LAUNCHER)
    _simba_add_test(torture redis COMMAND "${PROJECT_SOURCE_DIR}/tests/torture/quick" "${PROJECT_BINARY_DIR}")
endif()

# --- C++ ------------------------------------------------------------------------------------------
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
    enable_language(CXX)
    simba_glob(_programs tests/cpp/test_*.cpp)
    foreach(_source IN LISTS _programs)
        get_filename_component(_name ${_source} NAME_WE)
        string(REGEX REPLACE "^test_" "" _name ${_name})
        foreach(_variant IN ITEMS "" _no_exceptions)
            set(_target test_cpp_${_name}${_variant})
            add_executable(${_target} ${_source})
            target_compile_options(${_target} PRIVATE -std=c++17)
            target_link_libraries(${_target} PRIVATE simba_flags simba_shared)
            if(_variant)
                target_compile_options(${_target} PRIVATE -fno-exceptions -fno-rtti)
            endif()
            set_target_properties(${_target} PROPERTIES
                OUTPUT_NAME ${_name}${_variant} RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/cpp")
            _simba_add_test(cpp ${_name}${_variant} COMMAND ${_launcher} $<TARGET_FILE:${_target}>)
        endforeach()
    endforeach()
    simba_glob(_programs examples/*.cpp)
    foreach(_source IN LISTS _programs)
        get_filename_component(_name ${_source} NAME_WE)
        add_executable(example_cpp_${_name} ${_source})
        target_compile_options(example_cpp_${_name} PRIVATE -std=c++17)
        target_link_libraries(example_cpp_${_name} PRIVATE simba_flags simba_shared)
        set_target_properties(example_cpp_${_name} PROPERTIES
            OUTPUT_NAME ${_name}-cpp RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples")
        _simba_add_test(examples cpp_${_name} PLAIN COMMAND ${_launcher} $<TARGET_FILE:example_cpp_${_name}>)
    endforeach()
endif()

# --- examples -------------------------------------------------------------------------------------
if(TARGET simba AND NOT SIMBA_SANITIZE MATCHES "thread")
    _simba_add_test(examples hold COMMAND "${PROJECT_SOURCE_DIR}/tests/examples/hold" $<TARGET_FILE:simba> "${PROJECT_SOURCE_DIR}")
endif()
# These run until a signal ends them, which comes when they have printed this word.
set(_until_service "a little work")
set(_until_cron "ran under token")
set(_arguments_cron 60 "echo ran under token $SIMBA_TOKEN" memory://examples)
foreach(_name IN LISTS SIMBA_EXAMPLE_TARGETS)
    set(_until "")
    if(DEFINED _until_${_name})
        set(_until "${PROJECT_SOURCE_DIR}/tests/examples/run" ${_until_${_name}})
    endif()
    _simba_add_test(examples ${_name} PLAIN
        COMMAND ${_until} ${_launcher} $<TARGET_FILE:example_${_name}> ${_arguments_${_name}})
    set_property(TEST examples.${_name} APPEND PROPERTY ENVIRONMENT SIMBA_URL=memory://examples)
    set_property(TEST examples.${_name} APPEND PROPERTY ENVIRONMENT_MODIFICATION SIMBA_URL=reset:)
endforeach()

# --- install --------------------------------------------------------------------------------------
# A consumer of a sanitized library would have to be sanitized too: not what is to be shown here.
if(NOT SIMBA_SANITIZE AND NOT SIMBA_TEST_LAUNCHER)
    _simba_add_test(install consumer
        COMMAND "${PROJECT_SOURCE_DIR}/tests/install/run" "${PROJECT_BINARY_DIR}" "${CMAKE_COMMAND}" "${CMAKE_C_COMPILER}"
        $<CONFIG>)
    set_tests_properties(install.consumer PROPERTIES TIMEOUT 1800) # it compiles the library several times
    add_dependencies(install-tests installed)
    _simba_add_test(install release COMMAND "${PROJECT_SOURCE_DIR}/tests/release/run" "${PROJECT_SOURCE_DIR}")
    # The system's own first: it is the one that has the system's packages.
    find_program(SIMBA_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
    find_program(SIMBA_PYTHON python3)
    set(_python "${PROJECT_SOURCE_DIR}/bindings/python")
    set(_package "${PROJECT_BINARY_DIR}/python")
    if(SIMBA_PYTHON)
        execute_process(COMMAND ${SIMBA_PYTHON} -c "import cffi, pytest, mypy" RESULT_VARIABLE _status ERROR_QUIET)
    endif()
    set(_docs_python "")
    if(SIMBA_PYTHON AND _status EQUAL 0)
        set(_docs_python ${SIMBA_PYTHON})
    endif()
    _simba_add_test(install docs COMMAND "${PROJECT_SOURCE_DIR}/tests/docs/run" "${PROJECT_SOURCE_DIR}"
        "${CMAKE_C_COMPILER}" "${PROJECT_BINARY_DIR}" ${_docs_python})
    if(NOT _docs_python)
        _simba_add_test(python all COMMAND ${CMAKE_COMMAND} -E echo "1..0 # SKIP no python3 with cffi, pytest and mypy")
    else()
        simba_glob(_sources bindings/python/src/simba/*)
        add_custom_command(OUTPUT "${_package}/simba/_version.py"
            COMMAND ${SIMBA_PYTHON} "${_python}/make_ffi.py" "${_package}"
            DEPENDS "${_python}/make_ffi.py" include/simba.h ${_sources})
        add_custom_target(simba_python ALL DEPENDS "${_package}/simba/_version.py")
        add_dependencies(install-tests simba_python)
        _simba_add_test(python types PLAIN COMMAND ${CMAKE_COMMAND} -E env "MYPYPATH=${_package}"
            ${SIMBA_PYTHON} -m mypy --config-file "${_python}/pyproject.toml" --cache-dir "${PROJECT_BINARY_DIR}/mypy"
            "${_package}/simba" "${_python}/tests" "${PROJECT_SOURCE_DIR}/examples/leader.py")
        _simba_add_test(python example PLAIN COMMAND ${CMAKE_COMMAND} -E env "PYTHONPATH=${_package}"
            "SIMBA_LIBRARY=$<TARGET_FILE:simba_shared>" ${SIMBA_PYTHON} "${PROJECT_SOURCE_DIR}/examples/leader.py")
        set(_run "${_python}/tests/run" ${SIMBA_PYTHON} "${_package}" $<TARGET_FILE:simba_shared>)
        _simba_add_test(python memory COMMAND ${_run})
        _simba_add_test(python sqlite COMMAND ${_run} "sqlite://${PROJECT_BINARY_DIR}/tck/python.db")
        foreach(_store IN ITEMS
                "redis redis redis://127.0.0.1:%PORT%/1"
                "mysql mariadb mysql://root@127.0.0.1:%PORT%/simba?create=yes"
                "postgresql postgresql postgresql://postgres@127.0.0.1:%PORT%/simba?sslmode=disable&create=yes"
                "zookeeper zookeeper zookeeper://127.0.0.1:%PORT%/python")
            string(REPLACE " " ";" _store ${_store})
            list(GET _store 0 _name)
            list(GET _store 1 _kind)
            list(GET _store 2 _url)
            if(_name IN_LIST SIMBA_BACKENDS)
                _simba_add_test(python ${_name} COMMAND $<TARGET_FILE:with_server> ${_kind} ${_run} ${_url})
            endif()
        endforeach()
    endif()
    _simba_add_test(package debian COMMAND "${PROJECT_SOURCE_DIR}/tests/package/run" "${PROJECT_SOURCE_DIR}")
    _simba_add_test(package bare COMMAND "${PROJECT_SOURCE_DIR}/tests/package/bare" "${PROJECT_SOURCE_DIR}")
    # They build everything, some of it twice, and fetch packages: on a busy machine that takes most of an hour.
    set_tests_properties(package.debian package.bare PROPERTIES TIMEOUT 5400)
    _simba_add_test(package tarball COMMAND "${PROJECT_SOURCE_DIR}/tests/package/tarball" "${PROJECT_SOURCE_DIR}")
    _simba_add_test(package kernel COMMAND "${PROJECT_SOURCE_DIR}/tests/package/kernel" "${PROJECT_SOURCE_DIR}")
    # Both build the tarball, in the same folder.
    set_tests_properties(package.tarball package.kernel PROPERTIES TIMEOUT 5400 RESOURCE_LOCK tarball)
    _simba_add_test(package python COMMAND "${PROJECT_SOURCE_DIR}/tests/package/python" "${PROJECT_SOURCE_DIR}"
        $<TARGET_FILE:simba_shared>)
    _simba_add_test(package site PLAIN COMMAND "${PROJECT_SOURCE_DIR}/scripts/site")
    set_tests_properties(package.python package.site PROPERTIES TIMEOUT 5400)
endif()
