// The entry points of libcuda.so.1 for memory of other kinds than cuMemAlloc's, and for what the driver knows of an address.
#include <cstdlib>

#include "driver.h"

using namespace driver_double;

namespace {

int made(const Allocation *allocation, uintptr_t *address) {
    if (allocation == NULL) return OUT_OF_MEMORY;
    *address = allocation->start;
    return SUCCESS;
}

bool is_of(uintptr_t address, Kind kind) {
    const Allocation *found = find(address);
    return found != NULL && found->start == address && found->kind == kind;
}

// The physical memory that cuMemCreate makes.
struct Physical {
    size_t size;
    int device;
};

// The structures of cuMemCreate and cuMemSetAccess, as far as they are looked at.
struct Location {
    int type, id;
};
struct Properties {
    int type, handle_types;
    Location location;
};
struct Access {
    Location location;
    int flags;
};

}  // namespace

ENTRY(cuMemAllocManaged, uintptr_t *address, size_t size, unsigned) {
    START(cuMemAllocManaged);
    not_inside_a_call("cuMemAllocManaged");
    NEED(need_context());
    NEED(not_while_capturing("cuMemAllocManaged"));
    return size == 0 ? INVALID_VALUE : made(allocate(size, current_context()->device, Kind::MANAGED), address);
}
ENTRY(cuMemHostAlloc, uintptr_t *address, size_t size, unsigned) {
    START(cuMemHostAlloc);
    not_inside_a_call("cuMemHostAlloc");
    NEED(need_context());
    NEED(not_while_capturing("cuMemHostAlloc"));
    return size == 0 ? INVALID_VALUE : made(allocate(size, current_context()->device, Kind::PAGE_LOCKED), address);
}
ENTRY(cuMemFreeHost, uintptr_t address) {
    START(cuMemFreeHost);
    not_inside_a_call("cuMemFreeHost");
    NEED(need_context());
    NEED(settle());
    return is_of(address, Kind::PAGE_LOCKED) && release(address) ? SUCCESS : INVALID_VALUE;
}
ENTRY(cuMemHostRegister_v2, uintptr_t address, size_t size, unsigned) {
    START(cuMemHostRegister_v2);
    not_inside_a_call("cuMemHostRegister");
    NEED(need_context());
    return enrol(address, size, current_context()->device) ? SUCCESS : INVALID_VALUE;
}
ENTRY(cuMemHostUnregister, uintptr_t address) {
    START(cuMemHostUnregister);
    not_inside_a_call("cuMemHostUnregister");
    NEED(need_context());
    NEED(settle());
    return is_of(address, Kind::REGISTERED) && release(address) ? SUCCESS : INVALID_VALUE;
}

// Memory of a pool is there from now on, and goes when the stream comes to that.
ENTRY(cuMemAllocAsync, uintptr_t *address, size_t size, void *stream) {
    START(cuMemAllocAsync);
    not_inside_a_call("cuMemAllocAsync");
    NEED(need_context());
    (void)stream;
    return size == 0 ? INVALID_VALUE : made(allocate(size, current_context()->device, Kind::POOLED), address);
}
ENTRY(cuMemFreeAsync, uintptr_t address, void *stream) {
    START(cuMemFreeAsync);
    not_inside_a_call("cuMemFreeAsync");
    NEED(need_context());
    return is_of(address, Kind::POOLED) ? release_on(stream, address) : INVALID_VALUE;
}

// Address space first, memory for parts of it later, and then the devices that may reach these.
ENTRY(cuMemAddressReserve, uintptr_t *address, size_t size, size_t, uintptr_t, uint64_t) {
    START(cuMemAddressReserve);
    NEED(need_initialised());
    *address = reserve(size);
    return *address == 0 ? INVALID_VALUE : SUCCESS;
}
ENTRY(cuMemAddressFree, uintptr_t address, size_t) {
    START(cuMemAddressFree);
    NEED(need_initialised());
    return unreserve(address) ? SUCCESS : INVALID_VALUE;
}
ENTRY(cuMemCreate, Physical **physical, size_t size, const Properties *properties, uint64_t) {
    START(cuMemCreate);
    NEED(need_initialised());
    *physical = new Physical{size, properties->location.id};
    return SUCCESS;
}
ENTRY(cuMemRelease, Physical *physical) {
    START(cuMemRelease);
    NEED(need_initialised());
    delete physical;
    return SUCCESS;
}
ENTRY(cuMemMap, uintptr_t address, size_t size, size_t offset, const Physical *physical, uint64_t) {
    START(cuMemMap);
    NEED(need_initialised());
    if (offset != 0 || size != physical->size) return INVALID_VALUE;
    return map_segment(address, size, physical->device) ? SUCCESS : INVALID_VALUE;
}
ENTRY(cuMemUnmap, uintptr_t address, size_t) {
    START(cuMemUnmap);
    NEED(need_initialised());
    NEED(settle());
    return is_of(address, Kind::SEGMENT) && release(address) ? SUCCESS : INVALID_VALUE;
}
ENTRY(cuMemSetAccess, uintptr_t address, size_t size, const Access *access, size_t count) {
    START(cuMemSetAccess);
    NEED(need_initialised());
    for (size_t i = 0; i < count; ++i) {
        if (!allow(address, size, access[i].location.id, access[i].flags == 3)) return INVALID_VALUE;
    }
    return SUCCESS;
}

// The device of the current context reaches that of the other one.
ENTRY(cuCtxEnablePeerAccess, const Context *other, unsigned) {
    START(cuCtxEnablePeerAccess);
    NEED(need_context());
    make_peers(current_context()->device, other->device);
    return SUCCESS;
}

// Memory that the driver does not know is no error of this call: everything is zero then. Memory of another device is known
// by its address here, too, whether it may be reached or not: only the last attribute tells.
ENTRY(cuPointerGetAttributes, unsigned count, const unsigned *attributes, void **places, uintptr_t address) {
    START(cuPointerGetAttributes);
    NEED(need_context());
    NEED(not_while_capturing("cuPointerGetAttributes"));
    const Allocation *found = find(address);
    const bool on_host = found != NULL && (found->kind == Kind::PAGE_LOCKED || found->kind == Kind::REGISTERED);
    const bool reached = found != NULL && may_reach(found, current_context()->device);
    for (unsigned i = 0; i < count; ++i) {
        switch (attributes[i]) {
        case 2: *static_cast<unsigned *>(places[i]) = found == NULL ? 0 : on_host ? 1 : 2; break;
        case 3: *static_cast<uint64_t *>(places[i]) = found == NULL ? 0 : address; break;
        case 8: *static_cast<unsigned *>(places[i]) = found != NULL && found->kind == Kind::MANAGED; break;
        case 9: *static_cast<int *>(places[i]) = found == NULL ? -2 : found->device; break;
        case 10: *static_cast<unsigned *>(places[i]) = found != NULL && found->kind == Kind::PLAIN; break;
        case 11: *static_cast<uint64_t *>(places[i]) = found == NULL ? 0 : found->start; break;
        case 12: *static_cast<size_t *>(places[i]) = found == NULL ? 0 : found->size; break;
        case 16: *static_cast<unsigned *>(places[i]) = reached ? 3 : 0; break;
        default: return INVALID_VALUE;
        }
    }
    return SUCCESS;
}
