/* The same version under the name with the major version. */
#include "cudnn_version.h"
