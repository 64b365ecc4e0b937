# The command, the benchmarks and the examples. All of them see the public headers and the shared libraries only, but for
# two files that the command and the library both compile: how text from outside is escaped, and what was meant by a name
# that there is not.

# --- the command: <build directory>/simba ---------------------------------------------------------
simba_glob(_sources cli/*.c cli/*/*.c)
if(SIMBA_CLI AND _sources)
    simba_glob(_common src/util/escape.c src/util/guess.c)
    # `simba serve` and --status-listen are built where the headers of libmicrohttpd are; the library itself is loaded when they are
    # used.
    if(SIMBA_SERVE)
        pkg_check_modules(HTTP IMPORTED_TARGET libmicrohttpd>=0.9.75)
    endif()
    if(NOT TARGET PkgConfig::HTTP)
        list(FILTER _sources EXCLUDE REGEX "/cli/(serve/|http\\.c)")
    endif()
    add_executable(simba ${_sources} ${_common})
    if(TARGET PkgConfig::HTTP)
        simba_glob(_page cli/page/*)
        set_source_files_properties("${PROJECT_SOURCE_DIR}/cli/serve/routes.c" PROPERTIES
            OBJECT_DEPENDS "${_page}" COMPILE_DEFINITIONS "SIMBA_PAGE_FOLDER=\"${PROJECT_SOURCE_DIR}/cli/page\"")
        target_include_directories(simba PRIVATE ${HTTP_INCLUDE_DIRS})
        target_compile_definitions(simba PRIVATE SIMBA_CLI_WITH_HTTP)
    endif()
    target_include_directories(simba PRIVATE "${PROJECT_SOURCE_DIR}/cli" "${PROJECT_SOURCE_DIR}/src")
    if(SIMBA_STATIC_COMMAND)
        target_sources(simba PRIVATE packaging/tarball/names.c packaging/tarball/tls.c)
        target_compile_definitions(simba PRIVATE SIMBA_CLI_HTTP_LINKED)
        target_link_libraries(simba PRIVATE microhttpd)
        target_link_libraries(simba PRIVATE simba_flags simba_static)
        target_link_libraries(simba_sqlite_client INTERFACE z m) # of what its pkg-config file lists for static programs
        target_link_options(simba PRIVATE -static-pie)
    else()
        target_link_libraries(simba PRIVATE simba_flags simba_shared)
    endif()
    if(TARGET simba_tck)
        # The kit becomes part of it: a library that one of twelve commands uses would cost the others time.
        target_link_libraries(simba PRIVATE $<TARGET_OBJECTS:simba_tck_objects>)
    endif()
    set_target_properties(simba PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
endif()

# --- bench/bench_*.c: one program each; the other files there are shared by all ---------------------
# They compare the SQLite store with bare SQLite: without that store there is nothing to build.
simba_glob(_programs bench/bench_*.c)
if(SIMBA_BENCH AND _programs AND TARGET PkgConfig::SQLITE)
    simba_glob(_shared bench/*.c)
    list(REMOVE_ITEM _shared ${_programs})
    # These run the statements of a store, or the client of a server, by themselves.
    foreach(_part IN ITEMS redis_crowd mysql postgresql)
        set(_source "${PROJECT_SOURCE_DIR}/bench/bench_${_part}.c")
        string(REGEX REPLACE "_.*" "" _store ${_part})
        list(REMOVE_ITEM _programs ${_source})
        if(TARGET simba_${_store}_client)
            add_executable(bench_${_part} ${_source} ${_shared})
            target_include_directories(bench_${_part} PRIVATE "${PROJECT_SOURCE_DIR}/src")
            target_link_libraries(bench_${_part} PRIVATE simba_flags simba_static simba_${_store}_client)
            set_target_properties(bench_${_part} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
        endif()
    endforeach()
    foreach(_source IN LISTS _programs)
        get_filename_component(_name ${_source} NAME_WE)
        add_executable(${_name} ${_source} ${_shared})
        target_link_libraries(${_name} PRIVATE simba_flags simba_shared PkgConfig::SQLITE)
        set_target_properties(${_name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
    endforeach()
endif()

# --- bench/peers/c: those sides of the comparison that are written in C -----------------------------
if(SIMBA_BENCH)
    set(_peers simba flock)
    if(TARGET PkgConfig::REDIS)
        list(APPEND _peers bare_redis)
    endif()
    foreach(_peer IN LISTS _peers)
        add_executable(peer_${_peer} "${PROJECT_SOURCE_DIR}/bench/peers/c/${_peer}.c"
            "${PROJECT_SOURCE_DIR}/bench/peers/c/protocol.c")
        target_link_libraries(peer_${_peer} PRIVATE simba_flags)
        set_target_properties(peer_${_peer} PROPERTIES
            OUTPUT_NAME ${_peer} RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench/peers")
    endforeach()
    target_link_libraries(peer_simba PRIVATE simba_shared)
    if(TARGET peer_bare_redis)
        target_link_libraries(peer_bare_redis PRIVATE PkgConfig::REDIS)
    endif()
endif()

# --- examples/*.c: one program each; the tests run them -------------------------------------------
set(SIMBA_EXAMPLE_TARGETS "")
if(SIMBA_EXAMPLES)
    simba_glob(_programs examples/*.c)
    foreach(_source IN LISTS _programs)
        get_filename_component(_name ${_source} NAME_WE)
        add_executable(example_${_name} ${_source})
        target_link_libraries(example_${_name} PRIVATE simba_flags simba_shared)
        set_target_properties(example_${_name} PROPERTIES
            OUTPUT_NAME ${_name} RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples")
        list(APPEND SIMBA_EXAMPLE_TARGETS ${_name})
    endforeach()
endif()
