// Programs of PTX, as the entry points of the driver load them.
#pragma once

#include "ptx.h"

namespace driver_double {
namespace ptx {

// The program of a text, NULL and what is wrong with it if it is refused.
const Program *program_of(const std::string &text, std::string *wrong);

}  // namespace ptx
}  // namespace driver_double
