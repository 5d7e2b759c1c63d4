/* What cudnn-shim offers beyond the original's interface. Include it after, or instead of, cudnn.h.
 *
 * Everything here is refused under CUDNN_SHIM_STRICT=1, as the original refuses it. */
#ifndef CUDNN_SHIM_H_
#define CUDNN_SHIM_H_

#include "cudnn.h"

/** Format NC/xHWx: channels in blocks of x (1 to 65535) that lie side by side, N x ceil(C/x) x H x W x x.
 *
 * For cudnnSetTensor4dDescriptor, cudnnSetTensorNdDescriptorEx and the destination of tensor transforms. C need not be a
 * multiple of x: the last block is padded with channels that every operation writes as zero, and
 * cudnnGetTensorSizeInBytes counts them. The getters report C itself, and as its stride the one from block to block. */
#define CUDNN_SHIM_TENSOR_NC_XHWX(x) ((cudnnTensorFormat_t)(0x43580000 + (x)))

/** The blocked formats of CPU libraries. */
#define CUDNN_SHIM_TENSOR_NCHW4C CUDNN_SHIM_TENSOR_NC_XHWX(4)
#define CUDNN_SHIM_TENSOR_NCHW8C CUDNN_SHIM_TENSOR_NC_XHWX(8)
#define CUDNN_SHIM_TENSOR_NCHW16C CUDNN_SHIM_TENSOR_NC_XHWX(16)

#endif /* CUDNN_SHIM_H_ */
