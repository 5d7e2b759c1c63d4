/* Loads the libraries that the arguments name for everyone to see, in this order, and asks each for its version, its
 * status for a bad parameter and the name of that status. Then asks them all again, now that they are all there. */
#include <dlfcn.h>
#include <stdio.h>

static int ask(const char *name, void *library) {
    size_t (*version)(void);
    int (*create)(void **), (*destroy)(void *);
    const char *(*text)(int);
    void *handle = 0;
    int bad;
    *(void **)&version = dlsym(library, "cudnnGetVersion");
    *(void **)&create = dlsym(library, "cudnnCreate");
    *(void **)&destroy = dlsym(library, "cudnnDestroy");
    *(void **)&text = dlsym(library, "cudnnGetErrorString");
    if (version == 0 || create == 0 || destroy == 0 || text == 0) return printf("%s is incomplete\n", name);
    bad = create(0);
    printf("%zu %d %s\n", version(), bad, text(bad));
    return create(&handle) != 0 || destroy(handle) != 0;
}

int main(int argc, char **argv) {
    void *libraries[8];
    int at, again;
    for (at = 1; at < argc; at++) {
        libraries[at] = dlopen(argv[at], RTLD_NOW | RTLD_GLOBAL);
        if (libraries[at] == 0) return printf("%s\n", dlerror()), 2;
        if (ask(argv[at], libraries[at])) return 3;
    }
    for (again = 1; again < argc; again++) {
        if (ask(argv[again], libraries[again])) return 4;
    }
    return 0;
}
