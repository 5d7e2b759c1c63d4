/* The double of the original: every symbol counts its calls and jumps into another library, a copy of the one under test.
 *
 * DOUBLE_LIBRARY names that library, DOUBLE_REFUSES functions that answer NOT_SUPPORTED, DOUBLE_FAILS functions that answer
 * EXECUTION_FAILED, a comma behind each. DOUBLE_COUNTS names the file that gets a line for each function that was called. What the
 * double lacks is left out of symbols.h, which has a line SYMBOL(number, name) for each function. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
#define SYMBOL(number, name) AT_##name = number,
#include "symbols.h"
#undef SYMBOL
    COUNT
};

static const char *const names[] = {
#define SYMBOL(number, name) [number] = #name,
#include "symbols.h"
#undef SYMBOL
};

/* Each symbol leaves its number in a register that no argument has. */
#define SYMBOL(number, name)                                                                                           \
    __asm__(".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n"                                         \
            "    movl $" #number ", %r11d\n    jmp double_enter\n.size " #name ", . - " #name "\n");
#include "symbols.h"
#undef SYMBOL

/* Keeps every register that may hold an argument. */
__asm__(".text\ndouble_enter:\n"
        "    push %rdi\n    push %rsi\n    push %rdx\n    push %rcx\n    push %r8\n    push %r9\n"
        "    sub $136, %rsp\n"
        "    movups %xmm0, (%rsp)\n    movups %xmm1, 16(%rsp)\n    movups %xmm2, 32(%rsp)\n    movups %xmm3, 48(%rsp)\n"
        "    movups %xmm4, 64(%rsp)\n    movups %xmm5, 80(%rsp)\n    movups %xmm6, 96(%rsp)\n    movups %xmm7, 112(%rsp)\n"
        "    movl %r11d, %edi\n    call double_ask\n    mov %rax, %r11\n"
        "    movups (%rsp), %xmm0\n    movups 16(%rsp), %xmm1\n    movups 32(%rsp), %xmm2\n    movups 48(%rsp), %xmm3\n"
        "    movups 64(%rsp), %xmm4\n    movups 80(%rsp), %xmm5\n    movups 96(%rsp), %xmm6\n    movups 112(%rsp), %xmm7\n"
        "    add $136, %rsp\n"
        "    pop %r9\n    pop %r8\n    pop %rcx\n    pop %rdx\n    pop %rsi\n    pop %rdi\n    jmp *%r11\n");

static void *library;
static void *functions[COUNT];
static atomic_uint counts[COUNT];
static unsigned char refuses[COUNT], fails[COUNT];
static _Thread_local const char *said;

static int not_supported(void) {
    said = "the double refuses";
    return 3000;
}

static int execution_failed(void) {
    said = "the double fails";
    return 5000;
}

/* The double's own sentence, once, else the library's. */
static void last_error(char *text, size_t size) {
    if (said == NULL) {
        ((void (*)(char *, size_t))dlsym(library, "cudnnGetLastErrorString"))(text, size);
        return;
    }
    snprintf(text, size, "%s", said);
    said = NULL;
}

__attribute__((used, visibility("hidden"))) void *double_ask(unsigned at) {
    atomic_fetch_add(&counts[at], 1);
    if (refuses[at]) return (void *)not_supported;
    if (fails[at]) return (void *)execution_failed;
    if (strcmp(names[at], "cudnnGetLastErrorString") == 0) return (void *)last_error;
    return functions[at];
}

static int is_listed(const char *variable, const char *name) {
    const char *list = getenv(variable), *at = list;
    size_t length = strlen(name);
    while (list != NULL && (at = strstr(at, name)) != NULL) {
        if ((at == list || at[-1] == ',') && at[length] == ',') return 1;
        at += length;
    }
    return 0;
}

/* How often the program's library has called a function here. */
unsigned double_count(const char *name) {
    unsigned at;
    for (at = 0; at < COUNT; ++at) {
        if (names[at] != NULL && strcmp(names[at], name) == 0) return counts[at];
    }
    return 0;
}

__attribute__((constructor)) static void start(void) {
    unsigned at;
    const char *file = getenv("DOUBLE_LIBRARY");
    /* What it stands for has no original of its own. */
    unsetenv("CUDNN_SHIM_ORIGINAL");
    library = file == NULL ? NULL : dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (library == NULL) {
        fprintf(stderr, "the double has no library: %s\n", file == NULL ? "DOUBLE_LIBRARY" : dlerror());
        abort();
    }
    for (at = 0; at < COUNT; ++at) {
        if (names[at] == NULL) continue;
        functions[at] = dlsym(library, names[at]);
        refuses[at] = is_listed("DOUBLE_REFUSES", names[at]);
        fails[at] = is_listed("DOUBLE_FAILS", names[at]);
    }
}

__attribute__((destructor)) static void end(void) {
    const char *file = getenv("DOUBLE_COUNTS");
    FILE *list = file == NULL ? NULL : fopen(file, "w");
    unsigned at;
    if (list == NULL) return;
    for (at = 0; at < COUNT; ++at) {
        if (counts[at] > 0) fprintf(list, "%s %u\n", names[at], counts[at]);
    }
    fclose(list);
}
