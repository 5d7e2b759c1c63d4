/* A CUDA driver that takes all code and runs none, for an original that makes plans for a device that is described: its engines that
 * are compiled at run time hand what they have compiled to the driver. Everything else fails as on a machine without a device. */

static char made;

/* A handle of what was loaded or found. */
#define TAKES(name)                                                                                                    \
    int name(void **place) {                                                                                           \
        *place = &made;                                                                                                \
        return 0;                                                                                                      \
    }
#define DOES(name)                                                                                                     \
    int name(void) { return 0; }
/* CUDA_ERROR_NO_DEVICE */
#define LACKS(name)                                                                                                    \
    int name(void) { return 100; }

TAKES(cuLibraryLoadData)
TAKES(cuLibraryGetKernel)
TAKES(cuKernelGetFunction)
TAKES(cuModuleLoadData)
TAKES(cuModuleLoadDataEx)
TAKES(cuModuleGetFunction)
DOES(cuLibraryUnload)
DOES(cuModuleUnload)
DOES(cuKernelSetAttribute)
DOES(cuFuncSetAttribute)
LACKS(cuInit)
LACKS(cuCtxGetCurrent)
LACKS(cuCtxGetLimit)
LACKS(cuCtxPopCurrent)
LACKS(cuCtxPushCurrent)
LACKS(cuDeviceGet)
LACKS(cuDeviceGetCount)
LACKS(cuDriverGetVersion)
LACKS(cuFuncGetAttribute)
LACKS(cuGetErrorName)
LACKS(cuGetErrorString)
LACKS(cuKernelGetAttribute)
LACKS(cuLaunchCooperativeKernel)
LACKS(cuLaunchKernel)
LACKS(cuLaunchKernelEx)
LACKS(cuLibraryLoadFromFile)
LACKS(cuLinkAddData)
LACKS(cuLinkComplete)
LACKS(cuLinkCreate)
LACKS(cuLinkDestroy)
LACKS(cuOccupancyMaxActiveBlocksPerMultiprocessor)
LACKS(cuOccupancyMaxActiveClusters)
LACKS(cuOccupancyMaxPotentialClusterSize)
LACKS(cuStreamGetCtx)
