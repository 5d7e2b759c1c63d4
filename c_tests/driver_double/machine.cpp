// Machine code as the double takes it. It cannot execute any: an image tells for which architecture and of which kernel it is,
// and the kernel's text is looked up in the library's own folder, whose build sealed the image to that text.
#include "machine.h"

#include <dirent.h>
#include <elf.h>
#include <cstring>
#include <fstream>
#include <iterator>

#include "double.h"

#ifndef EM_CUDA
#define EM_CUDA 190
#endif

namespace driver_double {
namespace {

// The architecture of an image, 80 for 8.0. From version 8 of the ABI on it stands in the second byte of the flags.
int architecture(const Elf64_Ehdr &header) {
    return int(header.e_ident[EI_ABIVERSION] >= 8 ? header.e_flags >> 8 & 0xff : header.e_flags & 0xff);
}

// The kernel of an image, whose code has a section of its own; empty if it has not one kernel.
std::string kernel_of(const char *image, const Elf64_Ehdr &header) {
    static const char mark[] = ".text.";
    const Elf64_Shdr *sections = reinterpret_cast<const Elf64_Shdr *>(image + header.e_shoff);
    const char *names = image + sections[header.e_shstrndx].sh_offset;
    std::string kernel;
    for (unsigned i = 0; i < header.e_shnum; ++i) {
        const char *name = names + sections[i].sh_name;
        if (strncmp(name, mark, sizeof mark - 1) != 0 || sections[i].sh_type != SHT_PROGBITS) continue;
        if (!kernel.empty()) return "";
        kernel = name + sizeof mark - 1;
    }
    return kernel;
}

// Adds what stands outside of kernels, less comments and empty lines, as the build does.
void add_outside(const std::string &text, size_t start, size_t end, std::string *to) {
    while (start < end) {
        size_t stop = text.find('\n', start);
        if (stop == std::string::npos || stop > end) stop = end;
        const std::string line = text.substr(start, stop - start);
        const size_t first = line.find_first_not_of(" \t\r");
        if (first != std::string::npos && line.compare(first, 2, "//") != 0) *to += line + "\n";
        start = stop + 1;
    }
}

// The module of a kernel in a family's text; empty if it is none of the family.
std::string module_of(const std::string &text, const std::string &kernel) {
    static const std::string entry = ".visible .entry ";
    if (text.find(entry + kernel + "(") == std::string::npos) return "";
    std::string outside, own;
    size_t at = 0;
    for (size_t start; (start = text.find(entry, at)) != std::string::npos;) {
        const size_t end = text.find("\n}\n", start);
        if (end == std::string::npos) return "";
        add_outside(text, at, start, &outside);
        at = end + 3;
        if (text.compare(start + entry.size(), kernel.size() + 1, kernel + "(") == 0) own = text.substr(start, at - start);
    }
    add_outside(text, at, text.size(), &outside);
    return outside + own;
}

}  // namespace

bool is_machine_code(const char *image) { return strncmp(image, ELFMAG, SELFMAG) == 0; }

int text_of_machine_code(const char *image, int capability, std::string *text) {
    Elf64_Ehdr header;
    memcpy(&header, image, sizeof header);
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_CUDA || header.e_shoff == 0) return INVALID_IMAGE;
    const int made_for = architecture(header);
    tally("machine code for sm_" + std::to_string(made_for));
    if (made_for / 10 != capability / 10 || made_for > capability) return NO_BINARY_FOR_GPU;
    if (reinterpret_cast<uintptr_t>(image) % alignof(Elf64_Shdr) != 0) {
        complain("machine code at an address that is no multiple of %zu", alignof(Elf64_Shdr));
        return INVALID_IMAGE;
    }
    const std::string kernel = kernel_of(image, header);
    if (kernel.empty()) return INVALID_IMAGE;
    DIR *folder = opendir(DRIVER_DOUBLE_TEXTS);
    for (const dirent *file; folder != NULL && text->empty() && (file = readdir(folder)) != NULL;) {
        if (strstr(file->d_name, ".ptx") == NULL) continue;
        std::ifstream stream(std::string(DRIVER_DOUBLE_TEXTS "/") + file->d_name);
        *text = module_of(std::string(std::istreambuf_iterator<char>(stream), {}), kernel);
    }
    if (folder != NULL) closedir(folder);
    if (!text->empty()) return SUCCESS;
    complain("there is machine code of %s, and no text in %s", kernel.c_str(), DRIVER_DOUBLE_TEXTS);
    return INVALID_IMAGE;
}

}  // namespace driver_double
