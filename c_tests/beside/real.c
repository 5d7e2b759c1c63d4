/* The real original in one process with the library: whose functions are found, whichever was loaded first; a fork; an unload. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check_beside.h"

/* Whether two addresses belong to files of one folder. */
static int is_below(const void *at, const char *file) {
    Dl_info about;
    const char *end = strrchr(file, '/');
    return end != NULL && dladdr(at, &about) != 0 && strncmp(about.dli_fname, file, (size_t)(end - file)) == 0;
}

/* The handle gets no twin without a GPU; everything is served by us, and the program's own calls are ours. */
static void work(void) {
    cudnnHandle_t handle;
    cudnnTensorDescriptor_t desc;
    float x[2] = {1, 2}, y[2] = {0, 0}, one = 1, zero = 0;
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&desc));
    OK(cudnnSetTensor4dDescriptor(desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, 2));
    BY_US(cudnnTransformTensor(handle, &one, desc, x, &zero, desc, y));
    CHECK(y[0] == 1 && y[1] == 2);
    OK(cudnnDestroyTensorDescriptor(desc));
    OK(cudnnDestroy(handle));
}

int main(int count, char **list) {
    char name[128];
    void *original;
    FILE *symbols;
    int status = 0, found = 0;
    pid_t child;
    if (count < 4) return 2;
    if (strcmp(list[1], "ours-first") == 0) work();
    original = dlopen(list[2], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    CHECK(original != NULL);
    if (original == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    work();
    symbols = fopen(list[3], "r");
    while (symbols != NULL && fscanf(symbols, "%127s", name) == 1) {
        void *theirs = dlsym(original, name), *ours = dlsym(RTLD_DEFAULT, name);
        ++found;
        CHECK(ours != NULL && theirs != ours && !is_below(ours, list[2]));
        if (theirs == NULL || !is_below(theirs, list[2])) fprintf(stderr, "%s is not the original's\n", name), ++check_failures;
    }
    CHECK(found > 200);
    /* Both answer for themselves. */
    CHECK(((size_t(*)(void))dlsym(original, "cudnnGetVersion"))() >= 8000);
    child = fork();
    if (child == 0) {
        work();
        _exit(check_failures != 0);
    }
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    dlclose(original);
    work();
    return check_failures != 0;
}
