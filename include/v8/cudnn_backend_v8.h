/* Part of the interface in name only: everything is in cudnn.h. */
#include "cudnn.h"
