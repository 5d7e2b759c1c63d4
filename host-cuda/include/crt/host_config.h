/* What compiler compiles the host's code does not matter here. Part of cudnn-shim. */
#ifndef CUDNN_SHIM_CRT_HOST_CONFIG_H
#define CUDNN_SHIM_CRT_HOST_CONFIG_H

#endif
