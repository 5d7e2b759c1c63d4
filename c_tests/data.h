/* Data that calls compute on: in the host's memory, or on the device where on_device.h is there. What moves tensors around
 * calls is taken back, as they are on the device already. */
#ifndef DATA_H
#define DATA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef ON_DEVICE_H
#undef cudnnTransformTensor
#undef cudnnTransformTensorEx
#undef cudnnReduceTensor
#endif

static inline void data_lost(int lost) {
    if (lost) {
        fprintf(stderr, "no memory for data\n");
        exit(2);
    }
}

/* Memory of these bytes with a copy of what is there, or all bits set, NaNs, if nothing is. */
static inline void *data_new(const void *from, size_t size) {
#ifdef ON_DEVICE_H
    void *data = NULL, *bytes = malloc(size);
    data_lost(bytes == NULL || cudaMalloc(&data, size) != cudaSuccess);
    memset(bytes, 0xff, size);
    if (from != NULL) memcpy(bytes, from, size);
    data_lost(cudaMemcpy(data, bytes, size, cudaMemcpyHostToDevice) != cudaSuccess);
    free(bytes);
#else
    void *data = malloc(size);
    data_lost(data == NULL);
    memset(data, 0xff, size);
    if (from != NULL) memcpy(data, from, size);
#endif
    return data;
}

/* Copies what memory holds once all calls are done. */
static inline void data_read(void *to, const void *data, size_t size) {
#ifdef ON_DEVICE_H
    data_lost(cudaMemcpy(to, data, size, cudaMemcpyDeviceToHost) != cudaSuccess);
#else
    memcpy(to, data, size);
#endif
}

static inline void data_free(void *data) {
#ifdef ON_DEVICE_H
    data_lost(cudaFree(data) != cudaSuccess);
#else
    free(data);
#endif
}

#endif
