# What `cmake --install` puts where.
include(CMakePackageConfigHelpers)

set(_shared simba_shared)
set(_static simba_static)
if(TARGET simba_tck)
    list(APPEND _shared simba_tck)
    list(APPEND _static simba_tck_static)
endif()

# Programs and libraries find each other wherever the prefix is moved to.
file(RELATIVE_PATH _up "/p/${CMAKE_INSTALL_BINDIR}" "/p/${CMAKE_INSTALL_LIBDIR}")
set_target_properties(${_shared} PROPERTIES INSTALL_RPATH "\$ORIGIN")
if(TARGET simba)
    set_target_properties(simba PROPERTIES INSTALL_RPATH "\$ORIGIN/${_up}")
    install(TARGETS simba)
endif()
if(TARGET simba-tools)
    file(RELATIVE_PATH _from_tools "/p/${CMAKE_INSTALL_LIBEXECDIR}/simba" "/p/${CMAKE_INSTALL_LIBDIR}")
    set_target_properties(simba-tools PROPERTIES INSTALL_RPATH "\$ORIGIN/${_from_tools}")
    install(TARGETS simba-tools DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/simba)
endif()

if(SIMBA_MODULES)
    install(TARGETS ${SIMBA_MODULES} DESTINATION ${CMAKE_INSTALL_LIBDIR}/${SIMBA_MODULE_FOLDER})
endif()
# A set for each library, since a packager may put each into a package of its own.
set(_exports simba simba-static)
install(TARGETS simba_shared EXPORT simba-targets)
install(TARGETS simba_static EXPORT simba-static-targets)
if(TARGET simba_tck)
    list(APPEND _exports simba-tck simba-tck-static)
    install(TARGETS simba_tck EXPORT simba-tck-targets)
    install(TARGETS simba_tck_static EXPORT simba-tck-static-targets)
endif()

# The pages of section 3 are made from the headers. Which ones there are is known only afterwards: they go by their folder.
simba_glob(_headers include/*.h include/simba/*.h)
set(_man3 "${PROJECT_BINARY_DIR}/man3")
add_custom_command(OUTPUT "${_man3}.made"
    COMMAND "${PROJECT_SOURCE_DIR}/scripts/man3" "${_man3}"
    COMMAND ${CMAKE_COMMAND} -E touch "${_man3}.made"
    DEPENDS ${_headers} "${PROJECT_SOURCE_DIR}/scripts/man3" "${PROJECT_SOURCE_DIR}/scripts/man3.awk"
        "${PROJECT_SOURCE_DIR}/man/simba.3"
    COMMENT "Making the pages of section 3" VERBATIM)
add_custom_target(simba_man3 ALL DEPENDS "${_man3}.made")
install(DIRECTORY "${_man3}/" DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)

# All that is installed, and nothing else: what ./run builds.
add_custom_target(installed DEPENDS ${_shared} ${_static} ${SIMBA_MODULES} simba_man3)
if(TARGET simba)
    add_dependencies(installed simba)
endif()
install(FILES include/simba.h include/simba.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/simba DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

# --- find_package(simba) --------------------------------------------------------------------------
set(_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/simba)
foreach(_export IN LISTS _exports)
    install(EXPORT ${_export}-targets NAMESPACE simba:: DESTINATION ${_package_dir})
endforeach()
# Whoever links the static library links what it uses, which the package looks for there and then.
target_link_libraries(simba_static INTERFACE "$<INSTALL_INTERFACE:${SIMBA_PC_LIBS}>")
list(JOIN SIMBA_PC_REQUIRES " " _static_requires)
if(_static_requires)
    target_link_libraries(simba_static INTERFACE $<INSTALL_INTERFACE:PkgConfig::SIMBA_STATIC>)
endif()
configure_package_config_file(packaging/simba-config.cmake.in "${PROJECT_BINARY_DIR}/packaging/simba-config.cmake"
    INSTALL_DESTINATION ${_package_dir})
write_basic_package_version_file("${PROJECT_BINARY_DIR}/packaging/simba-config-version.cmake"
    COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/packaging/simba-config.cmake"
    "${PROJECT_BINARY_DIR}/packaging/simba-config-version.cmake" DESTINATION ${_package_dir})

# --- pkg-config -----------------------------------------------------------------------------------
foreach(_dir IN ITEMS INCLUDEDIR LIBDIR)
    if(IS_ABSOLUTE "${CMAKE_INSTALL_${_dir}}")
        set(_pc_${_dir} "${CMAKE_INSTALL_${_dir}}")
    else()
        set(_pc_${_dir} "\${prefix}/${CMAKE_INSTALL_${_dir}}")
    endif()
endforeach()
list(JOIN SIMBA_PC_REQUIRES ", " _pc_requires_private)
list(JOIN SIMBA_PC_LIBS " " _pc_libs_private)
set(_pc_files simba)
if(TARGET simba_tck)
    list(APPEND _pc_files simba-tck)
endif()
foreach(_name IN LISTS _pc_files)
    configure_file(packaging/${_name}.pc.in "${PROJECT_BINARY_DIR}/packaging/${_name}.pc.configured" @ONLY)
    # The prefix may be given as late as `cmake --install --prefix`.
    install(CODE "
        file(READ \"${PROJECT_BINARY_DIR}/packaging/${_name}.pc.configured\" text)
        string(REPLACE \"%PREFIX%\" \"\${CMAKE_INSTALL_PREFIX}\" text \"\${text}\")
        file(WRITE \"${PROJECT_BINARY_DIR}/packaging/${_name}.pc\" \"\${text}\")")
    install(FILES "${PROJECT_BINARY_DIR}/packaging/${_name}.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

# --- pages and completions, as far as there are any ---------------------------------------------------
foreach(_section RANGE 1 8)
    simba_glob(_pages man/*.${_section})
    if(_pages)
        install(FILES ${_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${_section})
    endif()
endforeach()
set(_completions "${PROJECT_SOURCE_DIR}/packaging/completions")
if(EXISTS "${_completions}/simba.bash")
    install(FILES "${_completions}/simba.bash" RENAME simba
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endif()
if(EXISTS "${_completions}/_simba")
    install(FILES "${_completions}/_simba" DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
endif()
if(EXISTS "${_completions}/simba.fish")
    install(FILES "${_completions}/simba.fish" DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
set(_units "${PROJECT_SOURCE_DIR}/packaging/systemd")
if(TARGET simba AND EXISTS "${_units}")
    foreach(_unit simba-elect@.service simba-schedule@.service)
        # As for the pkg-config files, the prefix may be given as late as `cmake --install --prefix`.
        install(CODE "
            file(READ \"${_units}/${_unit}.in\" text)
            get_filename_component(prefix \"\${CMAKE_INSTALL_PREFIX}\" ABSOLUTE)
            get_filename_component(bin \"${CMAKE_INSTALL_BINDIR}\" ABSOLUTE BASE_DIR \"\${prefix}\")
            string(REPLACE \"@CMAKE_INSTALL_FULL_BINDIR@\" \"\${bin}\" text \"\${text}\")
            file(WRITE \"${PROJECT_BINARY_DIR}/packaging/${_unit}\" \"\${text}\")")
        install(FILES "${PROJECT_BINARY_DIR}/packaging/${_unit}" DESTINATION lib/systemd/system)
    endforeach()
endif()
