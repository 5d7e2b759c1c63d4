/* Prints every status that has a name. */
#include <cudnn.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    int status;
    for (status = -10; status < 6000; status++) {
        const char *name = cudnnGetErrorString((cudnnStatus_t)status);
        if (strcmp(name, "CUDNN_UNKNOWN_STATUS") != 0) printf("%d %s\n", status, name);
    }
    return 0;
}
