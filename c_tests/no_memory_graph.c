/* Memory that runs out while a graph runs: attention, whose tiles are products on threads of their own. It says so and has written nothing,
 * or it does without, and has the bits of an execution that was never disturbed.
 *
 * Not under valgrind, which has an allocator of its own, and calls the memory of the parent's threads a leak in a forked child. */
#define _DEFAULT_SOURCE
#include "check.h"
#include "failing_memory.h"

#if defined IS_FAILING && CUDNN_MAJOR >= 9
#include "exhausted.h"
#include "graph.h"
#include <sys/wait.h>
#include <unistd.h>

enum { HEADS = 4, LENGTH = 300, SIZE = 512, CELLS = HEADS * LENGTH * SIZE };

static cudnnHandle_t handle;
static cudnnBackendDescriptor_t plan, pack;

static cudnnStatus_t execute(void) { return cudnnBackendExecute(handle, plan, pack); }

/* The same in children, whose threads are new: each takes its memory while others compute. */
static void exhausted_in_children(cudnnStatus_t (*call)(void)) {
    long n;
    for (n = 0; n < 200; n += 1 + n / 16) {
        int ended = -1;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            struct attempt attempt;
            attempt.call = call, attempt.n = n, attempt.status = CUDNN_STATUS_SUCCESS;
            restore();
            try(&attempt);
            if (attempt.status == CUDNN_STATUS_SUCCESS) _exit(same(1) ? 0 : 1);
            _exit(attempt.status == CUDNN_STATUS_ALLOC_FAILED && same(0) ? 0 : 2);
        }
        CHECK(waitpid(child, &ended, 0) == child && ended == 0);
    }
}

/* softmax(q * k) * v, of which no score has memory of the caller's. */
static void attentive(void) {
    static const int names[4] = { CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC,
                                  CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC };
    static const int64_t dims[4] = { 1, HEADS, LENGTH, SIZE };
    const int64_t ids[4] = { 1, 2, 3, 4 };
    float *inputs[3] = { numbers(CELLS), numbers(CELLS), numbers(CELLS) };
    void *pointers[4] = { inputs[0], inputs[1], inputs[2], output(CELLS * sizeof(float)) }, *workspace = NULL;
    cudnnBackendDescriptor_t tensors[4], operation = make(CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR), graph;
    int64_t size = -1, count_of = -1;
    int i;
    for (i = 0; i < 4; i++) {
        tensors[i] = tensor_of(ids[i], 4, dims, false);
        set_object(operation, (cudnnBackendAttributeName_t)names[i], tensors[i]);
    }
    OK(cudnnBackendFinalize(operation));
    graph = graph_of(1, &operation);
    plan = plan_of(graph);
    OK(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count_of, &size));
    /* The scores are not in the workspace: they are computed tile by tile. */
    CHECK(count_of == 1 && size < HEADS * LENGTH * LENGTH * (int64_t)sizeof(float));
    CHECK(posix_memalign(&workspace, 256, (size_t)size + 1) == 0);
    pack = pack_of(4, ids, pointers, workspace);
    exhausted("attention of a graph", execute);
    exhausted_in_children(execute);
    for (i = 0; i < 4; i++) OK(cudnnBackendDestroyDescriptor(tensors[i]));
    for (i = 0; i < 3; i++) free(inputs[i]);
    OK(cudnnBackendDestroyDescriptor(operation));
    OK(cudnnBackendDestroyDescriptor(graph));
    OK(cudnnBackendDestroyDescriptor(plan));
    OK(cudnnBackendDestroyDescriptor(pack));
    free(workspace);
    clear();
}

int main(void) {
    setenv("CUDNN_SHIM_NUM_THREADS", "2", 1);
    OK(cudnnCreate(&handle));
    attentive();
    /* A program that no call refuses shows nothing. */
    CHECK(refused > 0);
    OK(cudnnDestroy(handle));
    return check_result("no_memory_graph");
}
#else
int main(void) { return 0; }
#endif
