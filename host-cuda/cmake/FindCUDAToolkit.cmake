# For CMAKE_MODULE_PATH, which goes before the module that CMake brings.
include("${CMAKE_CURRENT_LIST_DIR}/CUDAToolkitConfig.cmake")
