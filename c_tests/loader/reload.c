/* Loads and unloads the library that the argument names a thousand times, using it every time. */
#include <dlfcn.h>
#include <stdio.h>

static int mappings(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    int lines = 0, c;
    if (maps == 0) return -1;
    while ((c = getc(maps)) != EOF) lines += c == '\n';
    fclose(maps);
    return lines;
}

int main(int argc, char **argv) {
    int round, before = 0;
    if (argc != 2) return 2;
    for (round = 0; round < 1000; round++) {
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        void *handle = 0;
        int (*create)(void **), (*destroy)(void *);
        if (library == 0) return printf("%s\n", dlerror()), 3;
        *(void **)&create = dlsym(library, "cudnnCreate");
        *(void **)&destroy = dlsym(library, "cudnnDestroy");
        if (create(&handle) != 0 || destroy(handle) != 0) return 4;
        /* Some handles are left behind. */
        if (round % 10 == 0 && create(&handle) != 0) return 5;
        if (dlclose(library) != 0) return 6;
        if (round == 10) before = mappings();
    }
    printf("mappings grew by %d\n", mappings() - before > 8 ? mappings() - before : 0);
    return 0;
}
