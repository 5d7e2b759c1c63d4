/* Makes a descriptor through one library and uses it through another: both arguments are libraries of one version. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    void *first, *second, *tensor = 0;
    int (*create)(void **), (*set)(void *, int, int, int, int, int, int), (*size)(void *, size_t *);
    size_t bytes = 0;
    if (argc != 3) return 2;
    first = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (first == 0) return printf("%s\n", dlerror()), 3;
    second = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    if (second == 0) return printf("%s\n", dlerror()), 3;
    *(void **)&create = dlsym(first, "cudnnCreateTensorDescriptor");
    *(void **)&set = dlsym(second, "cudnnSetTensor4dDescriptor");
    *(void **)&size = dlsym(first, "cudnnGetTensorSizeInBytes");
    if (create == 0 || set == 0 || size == 0) return 4;
    if (create(&tensor) != 0 || set(tensor, 0, 0, 2, 3, 4, 5) != 0 || size(tensor, &bytes) != 0) return 5;
    printf("%zu\n", bytes);
    return 0;
}
