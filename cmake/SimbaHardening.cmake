# What makes a mistake of ours harder to use against those who run it, in the builds that are installed: a table of
# addresses that is read-only once the program has started, a canary before each return address, bounds that the C library
# checks, pages of a large stack frame touched in turn, and jumps that land only where jumps may land. Each as far as the
# compiler and the linker have it.
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
include(CheckLinkerFlag)
include(CheckPIESupported)

check_pie_supported(LANGUAGES C)

if(NOT SIMBA_SANITIZE) # sanitizers check more than that, and do not go along with all of it
    set(_is_release $<CONFIG:Release,RelWithDebInfo,MinSizeRel>)

    foreach(_flag IN ITEMS -fstack-protector-strong -fstack-clash-protection -fcf-protection)
        string(MAKE_C_IDENTIFIER "SIMBA_HAS${_flag}" _has)
        check_c_compiler_flag("-Werror ${_flag}" ${_has})
        if(${_has})
            target_compile_options(simba_flags INTERFACE $<${_is_release}:${_flag}>)
        endif()
    endforeach()

    # 3 knows more sizes than 2; a C library that has no 3 says so.
    set(CMAKE_REQUIRED_FLAGS "-O2 -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
    check_c_source_compiles("#include <stdio.h>\nint main(void) { return puts(\"\") < 0; }" SIMBA_HAS_FORTIFY_3)
    unset(CMAKE_REQUIRED_FLAGS)
    set(_level $<IF:$<BOOL:${SIMBA_HAS_FORTIFY_3}>,3,2>)
    target_compile_options(simba_flags INTERFACE
        $<${_is_release}:-U_FORTIFY_SOURCE> $<${_is_release}:-D_FORTIFY_SOURCE=${_level}>)

    check_linker_flag(C "-Wl,-z,relro,-z,now" SIMBA_HAS_RELRO)
    if(SIMBA_HAS_RELRO)
        target_link_options(simba_flags INTERFACE $<${_is_release}:LINKER:-z,relro,-z,now>)
    endif()
endif()
