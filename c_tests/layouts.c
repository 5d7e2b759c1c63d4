/* The calls of cudnn_shim.h: layouts by name, questions about strides set by hand, offsets and indices, DLPack. The
 * expectations are the published definitions and tables, counted out here. */
#include "check.h"

#include <cudnn_shim.h>

static cudnnTensorDescriptor_t desc;

static void by_strides(int rank, const int *dims, const int *strides) {
    OK(cudnnSetTensorNdDescriptor(desc, CUDNN_DATA_FLOAT, rank, dims, strides));
}

static cudnnStatus_t by_name(cudnnDataType_t type, const char *name, int rank, const int *dims) {
    return cudnnShimSetTensorLayout(desc, type, name, rank, dims);
}

static void expect_name(const char *name) {
    char found[64];
    OK(cudnnShimGetTensorLayout(desc, sizeof found, found));
    if (strcmp(found, name) != 0) printf("%s, not %s\n", found, name);
    CHECK(strcmp(found, name) == 0);
}

static void expect_strides(int rank, const int *strides) {
    cudnnDataType_t type;
    int nb, dims[8], found[8], i;
    OK(cudnnGetTensorNdDescriptor(desc, rank, &type, &nb, dims, found));
    CHECK(nb == rank);
    for (i = 0; i < rank; i++) CHECK(found[i] == strides[i]);
}

/* Strides as frameworks show them, by name and the other way. */
static void names(void) {
    static const struct {
        const char *name, *found;
        int rank, dims[5], strides[5];
    } table[] = {
        { "PyTorch", "NCHW", 4, { 10, 3, 32, 32 }, { 3072, 1024, 32, 1 } },
        { "PyTorch:contiguous", "NCHW", 4, { 10, 3, 32, 32 }, { 3072, 1024, 32, 1 } },
        { "Caffe", "NCHW", 4, { 10, 3, 32, 32 }, { 3072, 1024, 32, 1 } },
        { "ONNX", "NCHW", 4, { 10, 3, 32, 32 }, { 3072, 1024, 32, 1 } },
        { "NumPy:C", "NCHW", 4, { 10, 3, 32, 32 }, { 3072, 1024, 32, 1 } },
        { "PyTorch:channels_last", "NHWC", 4, { 10, 3, 32, 32 }, { 3072, 1, 96, 3 } },
        { "TensorFlow", "NHWC", 4, { 10, 3, 32, 32 }, { 3072, 1, 96, 3 } },
        { "NHWC", "NHWC", 4, { 2, 16, 5, 4 }, { 320, 1, 64, 16 } },
        { "CHWN", "CHWN", 4, { 2, 16, 5, 4 }, { 1, 40, 8, 2 } },
        { "HWCN", "HWCN", 4, { 2, 16, 5, 4 }, { 1, 2, 128, 32 } },
        { "NumPy:F", "WHCN", 4, { 2, 16, 5, 4 }, { 1, 2, 32, 160 } },
        { "NC/32HW32", "NC/32HW32", 4, { 1, 64, 5, 4 }, { 1280, 640, 128, 32 } },
        { "nChw8c", "NC/8HW8", 4, { 2, 16, 5, 4 }, { 320, 160, 32, 8 } },
        { "nChw16c", "NC/16HW16", 4, { 2, 17, 5, 4 }, { 640, 320, 64, 16 } },
        { "NDHWC", "NDHWC", 5, { 2, 3, 4, 5, 6 }, { 360, 1, 90, 18, 3 } },
        { "PyTorch:channels_last_3d", "NDHWC", 5, { 2, 3, 4, 5, 6 }, { 360, 1, 90, 18, 3 } },
        { "CDHWN", "CDHWN", 5, { 2, 3, 4, 5, 6 }, { 1, 240, 60, 12, 2 } },
        { "nCdhw8c", "NC/8DHW8", 5, { 1, 8, 2, 2, 2 }, { 64, 64, 32, 16, 8 } },
        { "BMN:row", "BMN", 3, { 7, 3, 5 }, { 15, 5, 1 } },
        { "BMN:col", "BNM", 3, { 7, 3, 5 }, { 15, 1, 3 } },
        { "BNM", "BNM", 3, { 7, 3, 5 }, { 15, 1, 3 } },
        { "NWC", "BNM", 3, { 7, 3, 5 }, { 15, 1, 3 } },
        { "CN", "CN", 2, { 7, 3 }, { 1, 7 } },
    };
    const int high[6] = { 2, 3, 2, 3, 2, 3 }, last[6] = { 108, 1, 54, 18, 9, 3 };
    size_t i;
    for (i = 0; i < sizeof table / sizeof *table; i++) {
        OK(by_name(CUDNN_DATA_FLOAT, table[i].name, table[i].rank, table[i].dims));
        expect_strides(table[i].rank, table[i].strides);
        expect_name(table[i].found);
        if (strncmp(table[i].found, "NC/", 3) != 0) {
            by_strides(table[i].rank, table[i].dims, table[i].strides);
            expect_name(table[i].found);
        }
    }
    OK(by_name(CUDNN_DATA_FLOAT, "channels_last", 6, high));
    expect_strides(6, last);
    expect_name("channels_last");
    OK(by_name(CUDNN_DATA_FLOAT, "packed", 6, high));
    expect_name("packed");
}

/* Names that are wrong, and what they leave alone. */
/* Of two orders that strides could follow the name is the one that is packed further inside. */
static void most_packed(void) {
    const int dims[4] = {2, 1, 2, 2}, strides[4] = {12, 6, 3, 1};
    by_strides(4, dims, strides);
    expect_name("NHWC (WC-packed)");
}

static void refusals(void) {
    static const char *const wrong[] = { "",         "nhwc",     "NHW",        "NCHWC",       "NCHH",     "NC/32HW16", "NC/HW",
                                         "NC/32DHW32", "nChwc",  "nChw0c",     "nChw70000c",  "BMN:diag", "NDHWC",     "BNM",
                                         "PyTorch:channels_last_3d", "NC/99999999999999999999HW99999999999999999999" };
    const int dims[4] = { 2, 16, 5, 4 }, strides[4] = { 640, 40, 8, 2 }, empty[4] = { 2, 0, 5, 4 },
              odd[4] = { 1, 5, 2, 2 }, big[4] = { 3, 3, 30000, 30000 };
    char small[4];
    size_t i;
    by_strides(4, dims, strides);
    for (i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(by_name(CUDNN_DATA_FLOAT, wrong[i], 4, dims) == CUDNN_STATUS_BAD_PARAM);
    CHECK(by_name(CUDNN_DATA_FLOAT, NULL, 4, dims) == CUDNN_STATUS_BAD_PARAM);
    CHECK(by_name(CUDNN_DATA_FLOAT, "NHWC", 4, NULL) == CUDNN_STATUS_BAD_PARAM);
    CHECK(by_name(CUDNN_DATA_FLOAT, "NHWC", 1, dims) == CUDNN_STATUS_BAD_PARAM);
    CHECK(by_name(CUDNN_DATA_FLOAT, "packed", 9, dims) == CUDNN_STATUS_NOT_SUPPORTED);
    CHECK(by_name(CUDNN_DATA_FLOAT, "CHWN", 4, empty) == CUDNN_STATUS_BAD_PARAM);
    CHECK(by_name(CUDNN_DATA_FLOAT, "NCHW_VECT_C", 4, dims) == CUDNN_STATUS_BAD_PARAM);
    CHECK(by_name(CUDNN_DATA_INT8x4, "NC/4HW4", 4, odd) == CUDNN_STATUS_BAD_PARAM);
    CHECK(by_name(CUDNN_DATA_FLOAT, "CHWN", 4, big) == CUDNN_STATUS_NOT_SUPPORTED);
    CHECK(cudnnShimSetTensorLayout(NULL, CUDNN_DATA_FLOAT, "NHWC", 4, dims) == CUDNN_STATUS_BAD_PARAM);
    CHECK(cudnnShimGetTensorLayout(desc, 63, NULL) == CUDNN_STATUS_BAD_PARAM);
    CHECK(cudnnShimGetTensorLayout(desc, sizeof small, small) == CUDNN_STATUS_BAD_PARAM);
    expect_strides(4, strides);
    expect_name("strided");
}

struct verdict {
    int full, spatial, overlapping, broadcast;
};

static void expect_verdict(struct verdict want) {
    int answer = -1;
    OK(cudnnShimIsTensorFullyPacked(desc, &answer));
    CHECK(answer == want.full);
    OK(cudnnShimIsTensorSpatiallyPacked(desc, &answer));
    CHECK(answer == want.spatial);
    OK(cudnnShimIsTensorOverlapping(desc, &answer));
    CHECK(answer == want.overlapping);
    OK(cudnnShimIsTensorBroadcast(desc, &answer));
    CHECK(answer == want.broadcast);
}

static int packed_in(const char *letters) {
    int answer = -1;
    OK(cudnnShimIsTensorPacked(desc, letters, &answer));
    return answer;
}

/* Packed in which letters, repeated, overlapping: the definitions. */
static void questions(void) {
    const int dims[4] = { 2, 8, 5, 4 }, nchw[4] = { 160, 20, 4, 1 }, cnhw[4] = { 20, 40, 4, 1 },
              nhwc[4] = { 160, 1, 32, 8 }, wc_packed[4] = { 400, 1, 40, 8 }, hw_packed[4] = { 400, 40, 4, 1 },
              only_n[4] = { 320, 40, 8, 2 }, bias[4] = { 0, 1, 0, 0 }, crossing[4] = { 160, 20, 3, 1 },
              mirrored[4] = { 160, 20, -4, 1 },
              cnhw_rows[4] = { 25, 50, 5, 1 }, one_image[4] = { 0, 20, 4, 1 };
    const int one[4] = { 1, 1, 5, 4 }, wild[4] = { -7, 0, 4, 1 };
    const struct verdict packed = { 1, 1, 0, 0 }, channels_last = { 1, 0, 0, 0 }, gaps = { 0, 0, 0, 0 },
                         spatial = { 0, 1, 0, 0 }, repeated = { 0, 0, 1, 1 }, crossed = { 0, 0, 1, 0 };
    int answer = 7;
    by_strides(4, dims, nchw);
    expect_verdict(packed);
    CHECK(packed_in("NCHW") && packed_in("HW") && packed_in("W") && packed_in("WH") && packed_in("NC"));
    by_strides(4, dims, cnhw);
    expect_verdict(packed);
    by_strides(4, dims, cnhw_rows);
    expect_verdict(gaps);
    CHECK(packed_in("W") && !packed_in("HW"));
    by_strides(4, dims, nhwc);
    expect_verdict(channels_last);
    CHECK(packed_in("WC") && packed_in("HWC") && packed_in("C"));
    by_strides(4, dims, wc_packed);
    expect_verdict(gaps);
    CHECK(packed_in("WC") && packed_in("C") && !packed_in("HWC") && !packed_in("H"));
    expect_name("NHWC (WC-packed)");
    by_strides(4, dims, hw_packed);
    expect_verdict(spatial);
    CHECK(packed_in("HW") && !packed_in("CHW"));
    expect_name("NCHW (HW-packed)");
    by_strides(4, dims, only_n);
    expect_verdict(gaps);
    CHECK(packed_in("N") && !packed_in("W"));
    by_strides(4, dims, bias);
    expect_verdict(repeated);
    by_strides(4, dims, one_image);
    expect_verdict(repeated);
    CHECK(!packed_in("H") && !packed_in("HW"));
    by_strides(4, dims, crossing);
    expect_verdict(crossed);
    by_strides(4, dims, mirrored);
    expect_verdict(gaps);
    by_strides(4, one, wild);
    expect_verdict(packed);
    expect_name("NCHW");
    CHECK(cudnnShimIsTensorPacked(desc, "NX", &answer) == CUDNN_STATUS_BAD_PARAM && answer == 7);
    CHECK(cudnnShimIsTensorPacked(desc, "CC", &answer) == CUDNN_STATUS_BAD_PARAM && answer == 7);
    CHECK(cudnnShimIsTensorPacked(desc, NULL, &answer) == CUDNN_STATUS_BAD_PARAM && answer == 7);
    CHECK(cudnnShimIsTensorFullyPacked(desc, NULL) == CUDNN_STATUS_BAD_PARAM);
    CHECK(cudnnShimIsTensorFullyPacked(NULL, &answer) == CUDNN_STATUS_BAD_PARAM && answer == 7);
    OK(by_name(CUDNN_DATA_INT8, "NC/32HW32", 4, dims));
    expect_verdict(channels_last);
    OK(by_name(CUDNN_DATA_FLOAT, "BMN:col", 3, dims));
    CHECK(packed_in("M") && packed_in("MN") && packed_in("B"));
}

static int64_t offset(int64_t n, int64_t c, int64_t h, int64_t w) {
    int64_t index[4], found = -1, back[4] = { -1, -1, -1, -1 };
    index[0] = n, index[1] = c, index[2] = h, index[3] = w;
    OK(cudnnShimGetTensorOffset(desc, 4, index, &found));
    OK(cudnnShimGetTensorIndex(desc, found, 4, back));
    CHECK(memcmp(index, back, sizeof index) == 0);
    return found;
}

/* The formulas of the second example, every element, there and back. */
static void offsets(void) {
    enum { N = 2, C = 16, H = 5, W = 4 };
    const int dims[4] = { N, C, H, W }, gaps[4] = { 2000, 100, -9, 2 }, ragged[4] = { 2, 17, 5, 4 };
    int64_t n, c, h, w, first = 9, elements = 9, index[4] = { 0, 0, 0, 0 };
    size_t bytes = 9, size = 0;
    int layout;
    for (layout = 0; layout < 5; layout++) {
        static const char *const names[] = { "NCHW", "NHWC", "CHWN", "nChw8c" };
        if (layout < 4) OK(by_name(CUDNN_DATA_FLOAT, names[layout], 4, dims));
        if (layout == 4) by_strides(4, dims, gaps);
        for (n = 0; n < N; n++)
            for (c = 0; c < C; c++)
                for (h = 0; h < H; h++)
                    for (w = 0; w < W; w++) {
                        const int64_t want[5] = { n * C * H * W + c * H * W + h * W + w,
                                                  n * H * W * C + h * W * C + w * C + c,
                                                  c * H * W * N + h * W * N + w * N + n,
                                                  n * C * H * W + c / 8 * H * W * 8 + h * W * 8 + w * 8 + c % 8,
                                                  n * 2000 + c * 100 - h * 9 + w * 2 };
                        CHECK(offset(n, c, h, w) == want[layout]);
                    }
    }
    OK(cudnnShimGetTensorRange(desc, &first, &elements, &bytes));
    OK(cudnnGetTensorSizeInBytes(desc, &size));
    CHECK(first == -36 && elements == 1 + 2000 + 1500 + 36 + 6 && bytes == (size_t)elements * 4 && bytes == size);
    OK(cudnnShimGetTensorRange(desc, NULL, NULL, NULL));
    CHECK(cudnnShimGetTensorIndex(desc, 1, 4, index) == CUDNN_STATUS_BAD_PARAM);
    CHECK(cudnnShimGetTensorIndex(desc, -37, 4, index) == CUDNN_STATUS_BAD_PARAM);
    CHECK(cudnnShimGetTensorIndex(desc, 0, 3, index) == CUDNN_STATUS_BAD_PARAM);
    index[2] = 5;
    CHECK(cudnnShimGetTensorOffset(desc, 4, index, &first) == CUDNN_STATUS_BAD_PARAM && first == -36);
    index[2] = -1;
    CHECK(cudnnShimGetTensorOffset(desc, 4, index, &first) == CUDNN_STATUS_BAD_PARAM && first == -36);
    /* 17 channels in blocks of 16: the second block holds one, and 15 of padding, which are no elements. */
    OK(by_name(CUDNN_DATA_FLOAT, "nChw16c", 4, ragged));
    CHECK(offset(0, 16, 0, 0) == 320);
    CHECK(cudnnShimGetTensorIndex(desc, 321, 4, index) == CUDNN_STATUS_BAD_PARAM);
    OK(cudnnShimGetTensorRange(desc, &first, &elements, &bytes));
    CHECK(first == 0 && elements == 2 * 32 * 20 && bytes == 2 * 32 * 20 * 4);
    /* Vectors count channels one by one. */
    OK(by_name(CUDNN_DATA_INT8x4, "NCHW_VECT_C", 4, dims));
    CHECK(offset(1, 6, 2, 3) == 320 + 1 * 80 + 2 * 16 + 3 * 4 + 2);
}

static cudnnHandle_t handle;

static void dlpack(void) {
    int64_t shape[5] = { 2, 3, 4, 5, 0 }, strides[5] = { 60, 1, 15, 3, 0 }, views[10];
    float data[200];
    cudnnShimDLTensor_t view, back;
    cudnnShimDLManagedTensorVersioned_t managed;
    const int dims[4] = { 2, 3, 4, 5 }, want[4] = { 60, 1, 15, 3 }, packed[4] = { 60, 20, 5, 1 };
    void *first = NULL;
    int read_only = 7, i;
    memset(&view, 0, sizeof view);
    view.data = data;
    view.device.device_type = 1;
    view.ndim = 4;
    view.dtype.code = 2, view.dtype.bits = 32, view.dtype.lanes = 1;
    view.shape = shape, view.strides = strides, view.byte_offset = 8;
    OK(cudnnShimSetTensorFromDLPack(handle, desc, &view, &first));
    CHECK(first == data + 2);
    expect_strides(4, want);
    expect_name("NHWC");
    OK(cudnnShimGetTensorAsDLPack(handle, desc, first, 5, views, views + 5, &back));
    CHECK(back.data == data + 2 && back.byte_offset == 0 && back.ndim == 4 && back.device.device_type == 1);
    CHECK(back.dtype.code == 2 && back.dtype.bits == 32 && back.dtype.lanes == 1);
    for (i = 0; i < 4; i++) CHECK(back.shape[i] == dims[i] && back.strides[i] == want[i]);
    view.strides = NULL;
    OK(cudnnShimSetTensorFromDLPack(NULL, desc, &view, &first));
    expect_strides(4, packed);
    memset(&managed, 0, sizeof managed);
    managed.version.major = 1, managed.flags = 1, managed.dl_tensor = view;
    OK(cudnnShimSetTensorFromDLPackVersioned(handle, desc, &managed, &first, &read_only));
    CHECK(read_only == 1);
    managed.flags = 2;
    OK(cudnnShimSetTensorFromDLPackVersioned(handle, desc, &managed, &first, &read_only));
    CHECK(read_only == 0);
    /* Refusals write nothing. */
    first = NULL, read_only = 7, managed.version.major = 2;
    CHECK(cudnnShimSetTensorFromDLPackVersioned(handle, desc, &managed, &first, &read_only) == CUDNN_STATUS_NOT_SUPPORTED);
    CHECK(cudnnShimSetTensorFromDLPackVersioned(handle, desc, NULL, &first, &read_only) == CUDNN_STATUS_BAD_PARAM);
    CHECK(cudnnShimSetTensorFromDLPack(handle, desc, NULL, &first) == CUDNN_STATUS_BAD_PARAM);
    view.device.device_type = 2;
    CHECK(cudnnShimSetTensorFromDLPack(handle, desc, &view, &first) == CUDNN_STATUS_BAD_PARAM);
    view.device.device_type = 1, view.dtype.bits = 24;
    CHECK(cudnnShimSetTensorFromDLPack(handle, desc, &view, &first) == CUDNN_STATUS_NOT_SUPPORTED);
    view.dtype.bits = 32, view.ndim = 1;
    CHECK(cudnnShimSetTensorFromDLPack(handle, desc, &view, &first) == CUDNN_STATUS_NOT_SUPPORTED);
    view.ndim = 4, shape[2] = 0;
    CHECK(cudnnShimSetTensorFromDLPack(handle, desc, &view, &first) == CUDNN_STATUS_BAD_PARAM);
    CHECK(first == NULL && read_only == 7);
    expect_strides(4, packed);
    /* Lanes, and the block as a dimension of its own. */
    shape[2] = 4, view.dtype.code = 0, view.dtype.bits = 8, view.dtype.lanes = 32;
    OK(cudnnShimSetTensorFromDLPack(handle, desc, &view, &first));
    OK(cudnnShimGetTensorAsDLPack(handle, desc, data, 4, views, views + 5, &back));
    CHECK(back.dtype.code == 0 && back.dtype.lanes == 32 && back.strides[1] == 20);
    OK(by_name(CUDNN_DATA_FLOAT, "nChw8c", 4, dims));
    CHECK(cudnnShimGetTensorAsDLPack(handle, desc, data, 4, views, views + 5, &back) == CUDNN_STATUS_NOT_SUPPORTED);
    OK(cudnnShimGetTensorAsDLPack(handle, desc, data, 5, views, views + 5, &back));
    CHECK(back.ndim == 5 && back.shape[1] == 1 && back.shape[4] == 8 && back.strides[3] == 8 && back.strides[4] == 1);
}

static void handles(void) {
    const int dims[4] = { 2, 3, 4, 5 };
    const float one = 1.0f, zero = 0.0f;
    float x[120], y[120];
    cudnnTensorDescriptor_t to = NULL;
    char name[8], plan[512];
    size_t needed = 0;
    int threads = 0, i;
    for (i = 0; i < 120; i++) x[i] = (float)i;
    OK(cudnnShimGetCore(handle, sizeof name, name));
    CHECK(strcmp(name, "cpu") == 0);
    OK(cudnnShimGetThreads(handle, &threads));
    CHECK(threads >= 1);
    CHECK(cudnnShimGetCore(NULL, sizeof name, name) == CUDNN_STATUS_BAD_PARAM);
    CHECK(cudnnShimGetThreads(handle, NULL) == CUDNN_STATUS_BAD_PARAM);
    OK(cudnnCreateTensorDescriptor(&to));
    OK(by_name(CUDNN_DATA_FLOAT, "NHWC", 4, dims));
    OK(cudnnShimSetTensorLayout(to, CUDNN_DATA_FLOAT, "NCHW", 4, dims));
    OK(cudnnTransformTensor(handle, &one, desc, x, &zero, to, y));
    OK(cudnnShimGetLastPlan(sizeof plan, plan, &needed));
    CHECK(needed == 1 && plan[0] == '\0');
    OK(cudnnShimRecordPlans(1));
    OK(cudnnTransformTensor(handle, &one, desc, x, &zero, to, y));
    OK(cudnnShimGetLastPlan(0, NULL, &needed));
    CHECK(needed > 1 && needed <= sizeof plan);
    CHECK(cudnnShimGetLastPlan(needed - 1, plan, NULL) == CUDNN_STATUS_BAD_PARAM && plan[0] == '\0');
    OK(cudnnShimGetLastPlan(needed, plan, NULL));
    /* The text is that of the log, which has its own tests. */
    CHECK(strlen(plan) == needed - 1 && strncmp(plan, "cudnnTransformTensor: ", 22) == 0);
    OK(cudnnShimRecordPlans(0));
    OK(cudnnDestroyTensorDescriptor(to));
}

int main(void) {
    int answer = 7;
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&desc));
    CHECK(cudnnShimIsTensorFullyPacked(desc, &answer) == CUDNN_STATUS_BAD_PARAM && answer == 7);
    names();
    most_packed();
    refusals();
    questions();
    offsets();
    dlpack();
    handles();
    OK(cudnnDestroyTensorDescriptor(desc));
    OK(cudnnDestroy(handle));
    return check_result("layouts");
}
