# What an adapter needs when `hardpoint build` compiles it on the user's machine, with HARDPOINT_PACKAGE set to the
# installed package: the package's own build has settled all of it before.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
find_package(Python COMPONENTS Interpreter Development.Module REQUIRED)
execute_process(
  COMMAND ${Python_EXECUTABLE} -c
          "import tvm_ffi.libinfo as l; print(l.find_include_path(), l.find_dlpack_include_path(), sep=';')"
  OUTPUT_VARIABLE TVM_FFI OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
add_library(hardpoint_core SHARED IMPORTED)
set_target_properties(hardpoint_core PROPERTIES IMPORTED_LOCATION ${HARDPOINT_PACKAGE}/lib/libhardpoint_core.so)
target_include_directories(hardpoint_core INTERFACE ${CMAKE_CURRENT_LIST_DIR} ${HARDPOINT_PACKAGE}/include ${TVM_FFI})
