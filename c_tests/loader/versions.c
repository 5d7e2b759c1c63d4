/* Prints what the library says of versions; with an argument, after loading that file privately. */
#include <cudnn.h>
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int major = 0, minor = 0, patch = 0;
    if (argc == 2 && dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) == 0) return 2;
    if (cudnnGetProperty(MAJOR_VERSION, &major) != 0 || cudnnGetProperty(MINOR_VERSION, &minor) != 0 ||
        cudnnGetProperty(PATCH_LEVEL, &patch) != 0)
        return 3;
    printf("%d %zu %d.%d.%d %zu\n", (int)CUDNN_VERSION, cudnnGetVersion(), major, minor, patch,
           cudnnGetCudartVersion());
    return 0;
}
