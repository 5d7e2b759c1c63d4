/* The same interface under the name with the major version. */
#include "cudnn.h"
