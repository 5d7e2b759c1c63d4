/* Preloaded beside copies of other libraries in which `cpuid` is `int3; nop`: answers it as a processor without AVX-512 would. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

/* What belongs to AVX-512 and AMX in the words of leaf 7, part 0, and in the first word of part 1. */
static const unsigned EBX = 1u << 16 | 1u << 17 | 1u << 21 | 1u << 26 | 1u << 27 | 1u << 28 | 1u << 30 | 1u << 31;
static const unsigned ECX = 1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14;
static const unsigned EDX = 1u << 2 | 1u << 3 | 1u << 8 | 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25;
static const unsigned EAX = 1u << 5 | 1u << 21;

static void answer(int number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned leaf = (unsigned)registers[REG_RAX], part = (unsigned)registers[REG_RCX];
    unsigned a, b, c, d;
    (void)number, (void)info;
    __cpuid_count(leaf, part, a, b, c, d);
    if (leaf == 7 && part == 0) b &= ~EBX, c &= ~ECX, d &= ~EDX;
    if (leaf == 7 && part == 1) a &= ~EAX;
    registers[REG_RAX] = a, registers[REG_RBX] = b, registers[REG_RCX] = c, registers[REG_RDX] = d;
    /* The trap lies behind; the `nop` is left. */
    registers[REG_RIP]++;
}

__attribute__((constructor)) static void begin(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = answer;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGTRAP, &action, NULL);
}
