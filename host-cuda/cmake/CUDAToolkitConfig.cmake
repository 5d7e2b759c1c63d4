# find_package(CUDAToolkit) answered by CUDA on host memory: the libraries and headers that cudnn-shim brings.
#
# CMake looks here if it is told to: -DCMAKE_MODULE_PATH=<prefix>/lib/host-cuda/cmake/CUDAToolkit, or
# -DCMAKE_FIND_PACKAGE_PREFER_CONFIG=ON -DCUDAToolkit_DIR=<prefix>/lib/host-cuda/cmake/CUDAToolkit.

cmake_minimum_required(VERSION 3.10)

get_filename_component(_host_cuda_lib "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
get_filename_component(_host_cuda_prefix "${_host_cuda_lib}/../.." ABSOLUTE)

set(CUDAToolkit_FOUND TRUE)
set(CUDAToolkit_VERSION 12.9.0)
set(CUDAToolkit_VERSION_MAJOR 12)
set(CUDAToolkit_VERSION_MINOR 9)
set(CUDAToolkit_VERSION_PATCH 0)
set(CUDAToolkit_LIBRARY_DIR "${_host_cuda_lib}")
set(CUDAToolkit_LIBRARY_ROOT "${_host_cuda_prefix}")
set(CUDAToolkit_TARGET_DIR "${_host_cuda_prefix}")
set(CUDAToolkit_INCLUDE_DIRS "${_host_cuda_prefix}/include/host-cuda")
# There is no compiler for device code.
set(CUDAToolkit_NVCC_EXECUTABLE "")

foreach(_host_cuda_name cudart cublas cublasLt curand)
  if(NOT TARGET CUDA::${_host_cuda_name})
    add_library(CUDA::${_host_cuda_name} SHARED IMPORTED)
    set_target_properties(CUDA::${_host_cuda_name} PROPERTIES
      IMPORTED_LOCATION "${_host_cuda_lib}/lib${_host_cuda_name}.so"
      IMPORTED_NO_SONAME FALSE
      INTERFACE_INCLUDE_DIRECTORIES "${CUDAToolkit_INCLUDE_DIRS}")
  endif()
endforeach()
if(NOT TARGET CUDA::cuda_driver)
  add_library(CUDA::cuda_driver SHARED IMPORTED)
  set_target_properties(CUDA::cuda_driver PROPERTIES
    IMPORTED_LOCATION "${_host_cuda_lib}/libcuda.so"
    IMPORTED_NO_SONAME FALSE
    INTERFACE_INCLUDE_DIRECTORIES "${CUDAToolkit_INCLUDE_DIRS}")
endif()
# The libraries share one that lies beside them.
set(_host_cuda_link "-Wl,-rpath-link,${_host_cuda_lib}")
foreach(_host_cuda_name cudart cublas cublasLt curand cuda_driver)
  set_property(TARGET CUDA::${_host_cuda_name} APPEND PROPERTY INTERFACE_LINK_LIBRARIES "${_host_cuda_link}")
endforeach()
if(NOT TARGET CUDA::cudart_static)
  find_package(Threads REQUIRED)
  add_library(CUDA::cudart_static STATIC IMPORTED)
  set_target_properties(CUDA::cudart_static PROPERTIES
    IMPORTED_LOCATION "${_host_cuda_lib}/libcudart_static.a"
    INTERFACE_INCLUDE_DIRECTORIES "${CUDAToolkit_INCLUDE_DIRS}"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m;rt")
endif()
if(NOT TARGET CUDA::toolkit)
  add_library(CUDA::toolkit INTERFACE IMPORTED)
  set_target_properties(CUDA::toolkit PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${CUDAToolkit_INCLUDE_DIRS}")
endif()

unset(_host_cuda_name)
unset(_host_cuda_link)
unset(_host_cuda_prefix)
unset(_host_cuda_lib)
