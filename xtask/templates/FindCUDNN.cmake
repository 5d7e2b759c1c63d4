# For find_package(CUDNN MODULE), where a project insists on a module: put this folder on CMAKE_MODULE_PATH. It answers with
# the package that is installed beside it, target CUDNN::cudnn and the variables CUDNN_INCLUDE_DIR, CUDNN_LIBRARY, ...

include("${CMAKE_CURRENT_LIST_DIR}/../CUDNN/CUDNNConfig.cmake")
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUDNN REQUIRED_VARS CUDNN_LIBRARY CUDNN_INCLUDE_DIR VERSION_VAR CUDNN_VERSION)
