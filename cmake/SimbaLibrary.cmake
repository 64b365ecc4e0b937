# The library and the conformance kit. The sources of each are compiled once, into objects; the shared library, its modules,
# the static library and the tests, which reach internal symbols through the static one, are made of the same objects.
#
#   simba_objects       -> simba_shared (libsimba.so, simba::simba)         simba_static (libsimba.a)
#   simba_base_objects  -> the same two, and every module
#   simba_store_<name>  -> simba_shared or simba_module_<name>              simba_static
#   simba_tck_objects   -> simba_tck    (libsimba-tck.so, simba::tck)       simba_tck_static (libsimba-tck.a)
#
# The name `simba` belongs to the command's target, since both would want the same file in the build directory.

find_package(PkgConfig REQUIRED)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)

# How everything of ours is compiled: an interface, so that nothing leaks into projects that include this one.
add_library(simba_flags INTERFACE)
target_compile_definitions(simba_flags INTERFACE _GNU_SOURCE)
target_compile_options(simba_flags INTERFACE -Wall -Wextra -Wshadow
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes> $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>)
# snprintf is how a text is cut to size on purpose here; gcc would like to hear about it each time.
target_compile_options(simba_flags INTERFACE $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation>)
# gcc zeroes and copies a struct of a few hundred bytes by `rep stos` and `rep movs`, which need some 30 cycles to get going: the C
# library is quicker. What fits into a few registers stays inline.
include(CheckCCompilerFlag)
foreach(_flag IN ITEMS -mmemset-strategy=libcall:-1:noalign -mmemcpy-strategy=libcall:-1:noalign)
    string(MAKE_C_IDENTIFIER "SIMBA_HAS${_flag}" _has)
    check_c_compiler_flag("-Werror ${_flag}" ${_has})
    if(${_has})
        target_compile_options(simba_flags INTERFACE ${_flag})
    endif()
endforeach()
target_link_libraries(simba_flags INTERFACE Threads::Threads)
if(SIMBA_WERROR)
    target_compile_options(simba_flags INTERFACE -Werror)
endif()
if(SIMBA_SANITIZE)
    target_compile_options(simba_flags INTERFACE
        -fsanitize=${SIMBA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(simba_flags INTERFACE -fsanitize=${SIMBA_SANITIZE})
    set(_no_undefined "")
else()
    # A sanitizer's runtime is only in the program: then the library has symbols that are undefined, and rightly so.
    set(_no_undefined -Wl,--no-undefined)
endif()

include(SimbaHardening)

# simba_glob(<variable> <pattern>…): the matching files of the source tree, none if there is no such directory.
function(simba_glob variable)
    list(TRANSFORM ARGN PREPEND "${PROJECT_SOURCE_DIR}/")
    file(GLOB files CONFIGURE_DEPENDS ${ARGN})
    set(${variable} "${files}" PARENT_SCOPE)
endfunction()

function(_simba_object_library name)
    add_library(${name} OBJECT ${ARGN})
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
    target_link_libraries(${name} PRIVATE simba_flags)
    target_include_directories(${name} PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
        PRIVATE "${PROJECT_SOURCE_DIR}/src")
endfunction()

# Which programs a library serves: those that were linked to one of the same number, see docs/abi.md. Before 1.0 every minor
# version may change the interface.
set(SIMBA_ABI ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
    set(SIMBA_ABI 0.${PROJECT_VERSION_MINOR})
endif()

# _simba_export(<target> <pattern>): it exports the symbols of this pattern, with a version, and no others.
function(_simba_export target _exported)
    get_target_property(_node ${target} OUTPUT_NAME)
    string(MAKE_C_IDENTIFIER "${_node}" _node)
    string(TOUPPER "${_node}" _node)
    set(map "${PROJECT_BINARY_DIR}/generated/${target}.map")
    configure_file("${PROJECT_SOURCE_DIR}/packaging/symbols.map.in" "${map}" @ONLY)
    target_link_options(${target} PRIVATE "LINKER:--version-script=${map}")
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${map}")
endfunction()

function(_simba_shared_library name objects output)
    add_library(${name} SHARED $<TARGET_OBJECTS:${objects}>)
    set_target_properties(${name} PROPERTIES
        OUTPUT_NAME ${output} LINKER_LANGUAGE C VERSION ${PROJECT_VERSION} SOVERSION ${SIMBA_ABI})
    _simba_export(${name} "simba_[a-z]*")
    target_include_directories(${name} INTERFACE
        "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
    target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:simba_flags>)
    target_link_options(${name} PRIVATE ${_no_undefined})
endfunction()

function(_simba_static_library name objects output)
    add_library(${name} STATIC $<TARGET_OBJECTS:${objects}>)
    set_target_properties(${name} PROPERTIES OUTPUT_NAME ${output} LINKER_LANGUAGE C)
    target_include_directories(${name} PUBLIC
        "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
    target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:simba_flags>)
    target_compile_definitions(${name} INTERFACE $<INSTALL_INTERFACE:SIMBA_STATIC>)
endfunction()

# --- libsimba -------------------------------------------------------------------------------------
simba_glob(_sources src/core/*.c src/net/*.c src/util/*.c)
list(FILTER _sources EXCLUDE REGEX "/src/net/(link|tls)\\.c$")         # for stores with LINK
list(FILTER _sources EXCLUDE REGEX "/src/net/(http|json)[a-z_]*\\.c$") # for stores with HTTP
_simba_object_library(simba_base_objects ${_sources})
simba_glob(_sources src/client/*.c src/api/*.c)
_simba_object_library(simba_objects ${_sources})
_simba_shared_library(simba_shared simba_objects simba)
set_target_properties(simba_shared PROPERTIES EXPORT_NAME simba)
# A plugin that is unloaded may leave a client open, and the code of its threads has to stay.
target_link_options(simba_shared PRIVATE LINKER:-z,nodelete)
add_library(simba::simba ALIAS simba_shared)
_simba_static_library(simba_static simba_objects simba)
set_target_properties(simba_static PROPERTIES EXPORT_NAME static)
foreach(_library IN ITEMS simba_shared simba_static)
    # The list of stores is for src/stores/registry.c: a line for each, built in, a module or left out.
    file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/generated/${_library}/stores.inc"
        CONTENT "$<JOIN:$<TARGET_PROPERTY:${_library},SIMBA_STORES>,\n>\n")
    target_sources(${_library} PRIVATE
        $<TARGET_OBJECTS:simba_base_objects> "${PROJECT_SOURCE_DIR}/src/stores/registry.c")
    target_include_directories(${_library} PRIVATE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src"
        "${PROJECT_BINARY_DIR}/generated/${_library}")
    set_target_properties(${_library} PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
endforeach()

# Stores that come with libraries of their own are modules of the shared library, in a folder beside it, so that a program
# loads those libraries only when it opens such a store. See docs/abi.md.
set(SIMBA_STORES_BUILTIN "" CACHE STRING
    "Stores to build into the shared library instead, of: redis;mysql;postgresql;zookeeper;etcd;kubernetes. The static library has all of them")
foreach(_store IN LISTS SIMBA_STORES_BUILTIN)
    if(NOT IS_DIRECTORY "${PROJECT_SOURCE_DIR}/src/stores/${_store}")
        message(FATAL_ERROR "SIMBA_STORES_BUILTIN names \"${_store}\", and there is no such store.")
    endif()
endforeach()
set(SIMBA_MODULES "") # their targets
set(SIMBA_MODULE_FOLDER simba-${SIMBA_ABI})
target_sources(simba_shared PRIVATE "${PROJECT_SOURCE_DIR}/src/module/load.c")
target_compile_definitions(simba_shared PRIVATE "SIMBA__MODULE_FOLDER=\"${SIMBA_MODULE_FOLDER}\"")
add_library(simba_base STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:simba_base_objects>)
set_target_properties(simba_base PROPERTIES LINKER_LANGUAGE C)
set(SIMBA_PC_REQUIRES "")   # for simba.pc
set(SIMBA_PC_LIBS -pthread) # and those that have no pkg-config file

set(SIMBA_BACKENDS "") # those that are built

# _simba_module(<name> <packages> <objects>…): make a module of the objects of a store.
function(_simba_module name packages)
    set(module simba_module_${name})
    add_library(${module} MODULE "${PROJECT_SOURCE_DIR}/src/module/entry.c" ${ARGN})
    set_target_properties(${module} PROPERTIES
        PREFIX "" OUTPUT_NAME ${name} LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${SIMBA_MODULE_FOLDER}"
        C_VISIBILITY_PRESET hidden)
    target_compile_definitions(${module} PRIVATE SIMBA__MODULE_STORE=${name})
    target_include_directories(${module} PRIVATE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
    target_link_libraries(${module} PRIVATE simba_flags simba_base simba_${name}_client)
    target_link_options(${module} PRIVATE ${_no_undefined})
    _simba_export(${module} simba__this_module)
    add_dependencies(simba_shared ${module}) # who builds the library wants to open such stores with it
    set_property(TARGET simba_shared APPEND PROPERTY SIMBA_STORES "MODULE(${name}, \"${packages}\")")
    set(SIMBA_MODULES ${SIMBA_MODULES} ${module} PARENT_SCOPE)
endfunction()

# _simba_store_sources(<variable> <name>): the sources of a store's folder.
function(_simba_store_sources variable name)
    set(folder src/stores/${name})
    simba_glob(sources ${folder}/*.c)
    simba_glob(scripts ${folder}/lua/*.lua)
    if(scripts) # embedded, see SimbaScripts.cmake
        set(embedded "${PROJECT_BINARY_DIR}/generated/${name}_scripts.c")
        set(embed "${PROJECT_SOURCE_DIR}/cmake/SimbaScripts.cmake")
        add_custom_command(OUTPUT "${embedded}" DEPENDS ${scripts} "${embed}" VERBATIM
            COMMAND "${CMAKE_COMMAND}" "-DFOLDER=${PROJECT_SOURCE_DIR}/${folder}/lua" "-DOUTPUT=${embedded}" -P "${embed}")
        list(APPEND sources "${embedded}")
    endif()
    set(${variable} ${sources} PARENT_SCOPE)
endfunction()

# simba_backend(<name> [LINK] [HTTP] [USES <folder>] [MODULE <Debian package>…] [PKG <pkg-config module>…] [LIB <library>
# HEADER <header>]): a store. Makes the option SIMBA_WITH_<NAME>, on by default; compiles src/stores/<name>/*.c, which define
# simba__backend_<name>, the folder that it shares with other stores, and with LINK the connections of src/net, which need
# OpenSSL; HTTP implies LINK, and adds the HTTP and JSON of src/net. Links the modules of pkg-config, and the library, which is
# one without a pkg-config file that is of use; tells the tests with SIMBA_WITH_<NAME>=1. MODULE: it is one of the shared
# library, see SIMBA_STORES_BUILTIN, and these packages bring the libraries that it uses.
function(simba_backend name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "LINK;HTTP" "USES;LIB;HEADER" "MODULE;PKG")
    string(TOUPPER ${name} upper)
    option(SIMBA_WITH_${upper} "Build the ${name} store" ON)
    if(NOT SIMBA_WITH_${upper})
        set_property(TARGET simba_shared simba_static APPEND PROPERTY SIMBA_STORES
            "LEFT_OUT(${name}, SIMBA_WITH_${upper})")
        return()
    endif()
    add_library(simba_${name}_client INTERFACE) # what it uses
    if(arg_PKG)
        pkg_check_modules(${upper} IMPORTED_TARGET ${arg_PKG})
        if(NOT ${upper}_FOUND)
            message(FATAL_ERROR "The ${name} store needs the development files of: ${arg_PKG}. "
                "Install them, or configure with -DSIMBA_WITH_${upper}=OFF.")
        endif()
        target_link_libraries(simba_${name}_client INTERFACE PkgConfig::${upper})
        list(APPEND SIMBA_PC_REQUIRES ${arg_PKG})
        list(REMOVE_DUPLICATES SIMBA_PC_REQUIRES) # two stores may need the same
        set(SIMBA_PC_REQUIRES ${SIMBA_PC_REQUIRES} PARENT_SCOPE)
    endif()
    if(arg_LIB)
        find_library(SIMBA_${upper}_LIBRARY ${arg_LIB})
        find_path(SIMBA_${upper}_INCLUDE_DIR ${arg_HEADER} PATH_SUFFIXES ${name})
        mark_as_advanced(SIMBA_${upper}_LIBRARY SIMBA_${upper}_INCLUDE_DIR)
        if(NOT SIMBA_${upper}_LIBRARY OR NOT SIMBA_${upper}_INCLUDE_DIR)
            message(FATAL_ERROR "The ${name} store needs lib${arg_LIB} and <${arg_HEADER}>. "
                "Install them, or configure with -DSIMBA_WITH_${upper}=OFF.")
        endif()
        target_link_libraries(simba_${name}_client INTERFACE "${SIMBA_${upper}_LIBRARY}")
        target_include_directories(simba_${name}_client SYSTEM INTERFACE "${SIMBA_${upper}_INCLUDE_DIR}")
        set(SIMBA_PC_LIBS ${SIMBA_PC_LIBS} -l${arg_LIB} PARENT_SCOPE)
    endif()

    _simba_store_sources(sources ${name})
    _simba_object_library(simba_store_${name} ${sources})
    target_link_libraries(simba_store_${name} PRIVATE simba_${name}_client)
    set(objects $<TARGET_OBJECTS:simba_store_${name}>)
    if(arg_USES)
        if(NOT TARGET simba_store_${arg_USES})
            _simba_store_sources(sources ${arg_USES})
            _simba_object_library(simba_store_${arg_USES} ${sources})
        endif()
        list(APPEND objects $<TARGET_OBJECTS:simba_store_${arg_USES}>)
    endif()
    if(arg_HTTP)
        if(NOT TARGET simba_net_http)
            simba_glob(sources src/net/http*.c src/net/json*.c)
            _simba_object_library(simba_net_http ${sources})
        endif()
        list(APPEND objects $<TARGET_OBJECTS:simba_net_http>)
    endif()
    if(arg_LINK OR arg_HTTP)
        if(NOT TARGET simba_net_link)
            _simba_object_library(simba_net_link "${PROJECT_SOURCE_DIR}/src/net/link.c" "${PROJECT_SOURCE_DIR}/src/net/tls.c")
            target_link_libraries(simba_net_link PRIVATE simba_${name}_client) # where OpenSSL's headers are
        endif()
        list(APPEND objects $<TARGET_OBJECTS:simba_net_link>)
    endif()
    set(libraries simba_static)
    if(arg_MODULE AND NOT name IN_LIST SIMBA_STORES_BUILTIN)
        list(JOIN arg_MODULE ", " packages)
        _simba_module(${name} "${packages}" ${objects})
        set(SIMBA_MODULES ${SIMBA_MODULES} PARENT_SCOPE)
    else()
        list(APPEND libraries simba_shared)
    endif()
    foreach(library IN LISTS libraries)
        get_target_property(sources ${library} SOURCES)
        foreach(object IN LISTS objects)
            if(NOT object IN_LIST sources) # another store may use the same folder
                target_sources(${library} PRIVATE ${object})
            endif()
        endforeach()
        target_link_libraries(${library} PRIVATE $<BUILD_INTERFACE:simba_${name}_client>)
        set_property(TARGET ${library} APPEND PROPERTY SIMBA_STORES "BUILT(${name})")
    endforeach()
    target_compile_definitions(simba_static INTERFACE $<BUILD_INTERFACE:SIMBA_WITH_${upper}=1>)
    set(SIMBA_BACKENDS ${SIMBA_BACKENDS} ${name} PARENT_SCOPE)
endfunction()

# --- libsimba-tck ---------------------------------------------------------------------------------
# It uses the public headers only, as a kit for other people's stores would have to.
simba_glob(_sources tck/*.c)
if(_sources)
    _simba_object_library(simba_tck_objects ${_sources})
    target_include_directories(simba_tck_objects PRIVATE "${PROJECT_SOURCE_DIR}/tck")
    _simba_shared_library(simba_tck simba_tck_objects simba-tck)
    set_target_properties(simba_tck PROPERTIES EXPORT_NAME tck)
    target_link_libraries(simba_tck PUBLIC simba_shared)
    add_library(simba::tck ALIAS simba_tck)
    _simba_static_library(simba_tck_static simba_tck_objects simba-tck)
    set_target_properties(simba_tck_static PROPERTIES EXPORT_NAME tck_static)
    target_link_libraries(simba_tck_static PUBLIC simba_static)
endif()
