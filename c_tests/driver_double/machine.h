// Machine code as the double takes it: the image of one kernel, for which it runs the text that it was made of.
#ifndef DRIVER_DOUBLE_MACHINE_H
#define DRIVER_DOUBLE_MACHINE_H

#include <string>

namespace driver_double {

// Whether an image is machine code: an ELF file.
bool is_machine_code(const char *image);

// The module of text that an image was made of, which is the library's own of the same kernel: SUCCESS, or what a device of
// this capability answers instead.
int text_of_machine_code(const char *image, int capability, std::string *text);

}  // namespace driver_double

#endif
