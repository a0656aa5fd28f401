# find_package(Hardpoint) for CMake builds of plug-ins. Set -DHardpoint_DIR=$(hardpoint cmake-dir) or add that folder to
# CMAKE_PREFIX_PATH. Needs no framework. It defines
#
#   Hardpoint::Headers                       interface target: hardpoint/plugin.h, TVM-FFI and DLPack
#   hardpoint_add_plugin(NAME source...)     builds a plug-in or kernel library libNAME.so that exports only
#                                            hp_plugin_init and kernels
#   hardpoint_add_wheel(NAME [library...])   target NAME that builds the project's wheel with these libraries
cmake_minimum_required(VERSION 3.20)

find_package(Python COMPONENTS Interpreter REQUIRED)
if(NOT TARGET Hardpoint::Headers)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
            "import hardpoint_build.paths as p, importlib.metadata as m; print(m.version('hardpoint'), *p.include_dirs(), sep=';')"
    OUTPUT_VARIABLE Hardpoint_FOUND_AT ERROR_VARIABLE Hardpoint_ERROR RESULT_VARIABLE Hardpoint_STATUS
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT Hardpoint_STATUS EQUAL 0)
    set(Hardpoint_FOUND FALSE)
    set(Hardpoint_NOT_FOUND_MESSAGE
        "${Python_EXECUTABLE} has no hardpoint package: set -DPython_EXECUTABLE=... to one that has it\n${Hardpoint_ERROR}")
    return()
  endif()
  list(POP_FRONT Hardpoint_FOUND_AT Hardpoint_VERSION)
  set(Hardpoint_INCLUDE_DIRS ${Hardpoint_FOUND_AT})
  add_library(Hardpoint::Headers INTERFACE IMPORTED)
  set_target_properties(Hardpoint::Headers PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${Hardpoint_INCLUDE_DIRS}")
endif()
set(Hardpoint_EXPORTS ${CMAKE_CURRENT_LIST_DIR}/plugin.map)

function(hardpoint_add_plugin name)
  add_library(${name} MODULE ${ARGN})
  target_link_libraries(${name} PRIVATE Hardpoint::Headers)
  target_compile_features(${name} PRIVATE c_std_11 cxx_std_17)
  target_compile_options(${name} PRIVATE -Wall -Wextra -ffile-prefix-map=${CMAKE_CURRENT_SOURCE_DIR}=.)
  target_link_options(${name} PRIVATE -Wl,--version-script=${Hardpoint_EXPORTS})
  set_target_properties(${name} PROPERTIES
    PREFIX lib SUFFIX .so POSITION_INDEPENDENT_CODE ON LINK_DEPENDS ${Hardpoint_EXPORTS}
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()

function(hardpoint_add_wheel name)
  set(files)
  foreach(library ${ARGN})
    list(APPEND files $<TARGET_FILE:${library}>)
  endforeach()
  list(JOIN files ":" files)
  # With HARDPOINT_LIBRARIES set, the project's setup.py packs these libraries instead of compiling.
  add_custom_target(${name}
    COMMAND ${CMAKE_COMMAND} -E env HARDPOINT_LIBRARIES=${files} ${Python_EXECUTABLE} -m pip wheel
            --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir ${CMAKE_CURRENT_BINARY_DIR}/dist
            ${CMAKE_CURRENT_SOURCE_DIR}
    DEPENDS ${ARGN} VERBATIM)
endfunction()
