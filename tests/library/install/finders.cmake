# Reads the version and finds the libraries in the ways of the build systems that look for this library, over the
# installation in PREFIX, and fails unless all of them find VERSION. Run by `cmake -P`.

cmake_minimum_required(VERSION 3.15)

string(REPLACE "." ";" numbers "${VERSION}")
list(GET numbers 0 major)
set(include "${PREFIX}/include")
set(lib "${PREFIX}/lib")
set(names CUDNN_MAJOR CUDNN_MINOR CUDNN_PATCHLEVEL)

# The files of each way, separated by `|`, then how they are chosen and with which expression behind `define <name>`.
set(any_spaces " * +([0-9]+)")
set(one_space " ([0-9]+)")
set(ways
  "cudnn.h only|first|any_spaces|cudnn.h"
  "version header, else cudnn.h|first|any_spaces|cudnn_version.h|cudnn.h"
  "version header, else cudnn.h, one space|first|one_space|cudnn_version.h|cudnn.h"
  "cudnn.h, one space|first|one_space|cudnn.h"
  "cudnn.h, version header without a match|match|any_spaces|cudnn.h|cudnn_version.h"
  "all joined|joined|any_spaces|cudnn.h|cudnn_v8.h|cudnn_v7.h|cudnn_version.h|cudnn_version_v8.h|cudnn_version_v7.h")

foreach(way IN LISTS ways)
  string(REPLACE "|" ";" way "${way}")
  list(POP_FRONT way title choice expression)
  set(text "")
  foreach(file IN LISTS way)
    if(NOT EXISTS "${include}/${file}")
      continue()
    endif()
    file(READ "${include}/${file}" content)
    if(choice STREQUAL "joined" OR text STREQUAL "")
      string(APPEND text "${content}")
    endif()
    if(choice STREQUAL "match" AND NOT text MATCHES "define CUDNN_MAJOR${${expression}}")
      set(text "")
    endif()
  endforeach()
  set(found "")
  foreach(name IN LISTS names)
    # As everywhere: match, then replace the match by its group.
    string(REGEX MATCH "define ${name}${${expression}}" match "${text}")
    string(REGEX REPLACE "define ${name}${${expression}}" "\\1" number "${match}")
    list(APPEND found "${number}")
  endforeach()
  string(REPLACE ";" "." found "${found}")
  if(NOT found STREQUAL VERSION)
    message(FATAL_ERROR "${title}: found ${found} instead of ${VERSION}")
  endif()
  message(STATUS "${title}: ${found}")
endforeach()

# Line by line, anchored at column 0.
foreach(header cudnn.h cudnn_version.h cudnn_v${major}.h cudnn_version_v${major}.h)
  if(NOT EXISTS "${include}/${header}")
    message(FATAL_ERROR "${header} is not installed")
  endif()
endforeach()
foreach(header cudnn.h cudnn_version.h)
  file(STRINGS "${include}/${header}" lines REGEX "^#define CUDNN_(MAJOR|MINOR|PATCHLEVEL) [0-9]+$")
  list(LENGTH lines count)
  if(NOT count EQUAL 3)
    message(FATAL_ERROR "${header}: ${count} of 3 version lines start at column 0 and end behind the number")
  endif()
endforeach()

# Libraries by file name and by linker name.
set(CMAKE_FIND_LIBRARY_PREFIXES lib)
set(CMAKE_FIND_LIBRARY_SUFFIXES .so .a)
set(searches libcudnn.so libcudnn.so.${major} libcudnn.so.${VERSION} libcudnn_static.a cudnn cudnn_static)
if(major EQUAL 8)
  set(parts cudnn_ops_infer cudnn_ops_train cudnn_cnn_infer cudnn_cnn_train cudnn_adv_infer cudnn_adv_train)
else()
  set(parts cudnn_graph cudnn_ops cudnn_cnn cudnn_adv cudnn_heuristic cudnn_engines_precompiled
    cudnn_engines_runtime_compiled)
endif()
foreach(part IN LISTS parts)
  list(APPEND searches ${part} lib${part}.so lib${part}.so.${major})
endforeach()
foreach(search IN LISTS searches)
  unset(library CACHE)
  find_library(library NAMES ${search} HINTS "${PREFIX}" PATH_SUFFIXES lib lib64 lib/x64 cuda/lib NO_DEFAULT_PATH)
  if(NOT library)
    message(FATAL_ERROR "find_library does not find ${search}")
  endif()
endforeach()

# Several names of which one is there, and the header by its own name.
unset(library CACHE)
find_library(library NAMES cudnn cudnn8 cudnn7 HINTS "${lib}" NO_DEFAULT_PATH)
find_path(folder NAMES cudnn.h cudnn_v8.h cudnn_v7.h HINTS "${PREFIX}" PATH_SUFFIXES cuda/include include
  NO_DEFAULT_PATH)
if(NOT library STREQUAL "${lib}/libcudnn.so" OR NOT folder STREQUAL include)
  message(FATAL_ERROR "found ${library} and ${folder}")
endif()
list(LENGTH searches count)
message(STATUS "${count} library names found")
