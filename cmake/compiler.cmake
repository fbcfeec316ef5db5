# SPDX-License-Identifier: Apache-2.0
# Flags that every target of ours gets. Nothing here may depend on the machine that builds: instruction sets are
# chosen per object file in src/kernels and at run time.

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
set(CMAKE_C_FLAGS_RELEASE "-O2 -g1")

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

add_library(lockstep_flags INTERFACE)
target_compile_options(lockstep_flags INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wnon-virtual-dtor -Werror
  # The exactness contract: a*b+c is fused only where the source says std::fma.
  -ffp-contract=off -fno-fast-math)
target_include_directories(lockstep_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)

if(LOCKSTEP_SANITIZE)
  add_compile_options(-fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${LOCKSTEP_SANITIZE})
  # g++ 12 takes optionals for uninitialised in instrumented code; the release build keeps the warning as an error.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(lockstep_flags INTERFACE -Wno-error=maybe-uninitialized)
  else()  # clang-19 for the fuzz targets: libstdc++ 12's stable_sort calls a function that it marks deprecated itself
    target_compile_options(lockstep_flags INTERFACE -Wno-deprecated-declarations)
  endif()
endif()
