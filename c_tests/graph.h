/* Parts of graphs as programs describe them: tensors, pointwise operations, graphs, plans and packs of addresses. */
#ifndef GRAPH_H
#define GRAPH_H

#include <stdbool.h>

#include "check.h"

static cudnnBackendDescriptor_t make(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t object = NULL;
    OK(cudnnBackendCreateDescriptor(type, &object));
    return object;
}

static void set_object(cudnnBackendDescriptor_t object, cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value) {
    OK(cudnnBackendSetAttribute(object, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value));
}

/* A packed tensor of floats. */
static cudnnBackendDescriptor_t tensor_of(int64_t id, int64_t rank, const int64_t *dims, bool is_virtual) {
    cudnnBackendDescriptor_t object = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const int64_t alignment = 16;
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    int64_t strides[8], stride = 1;
    for (int64_t axis = rank; axis-- > 0; stride *= dims[axis]) strides[axis] = stride;
    OK(cudnnBackendSetAttribute(object, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id));
    OK(cudnnBackendSetAttribute(object, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type));
    OK(cudnnBackendSetAttribute(object, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment));
    OK(cudnnBackendSetAttribute(object, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rank, dims));
    OK(cudnnBackendSetAttribute(object, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rank, strides));
    OK(cudnnBackendSetAttribute(object, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual));
    OK(cudnnBackendFinalize(object));
    return object;
}

/* A graph of operations, which has copies of them. */
static cudnnBackendDescriptor_t graph_of(int64_t count, const cudnnBackendDescriptor_t *operations) {
    cudnnBackendDescriptor_t graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    OK(cudnnBackendSetAttribute(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, operations));
    OK(cudnnBackendFinalize(graph));
    return graph;
}

/* The plan of the first configuration that the heuristics offer. */
static cudnnBackendDescriptor_t plan_of(cudnnBackendDescriptor_t graph) {
    cudnnBackendDescriptor_t heuristics = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    int64_t count = -1;
    set_object(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    OK(cudnnBackendSetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode));
    OK(cudnnBackendFinalize(heuristics));
    OK(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, NULL));
    CHECK(count >= 1);
    cudnnBackendDescriptor_t configuration = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    OK(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &configuration));
    CHECK(count == 1);
    cudnnBackendDescriptor_t plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set_object(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    OK(cudnnBackendFinalize(plan));
    OK(cudnnBackendDestroyDescriptor(heuristics));
    OK(cudnnBackendDestroyDescriptor(configuration));
    return plan;
}

static cudnnBackendDescriptor_t pack_of(int64_t count, const int64_t *ids, void *const *pointers, void *workspace) {
    cudnnBackendDescriptor_t pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    OK(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids));
    OK(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers));
    OK(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace));
    OK(cudnnBackendFinalize(pack));
    return pack;
}

#endif
