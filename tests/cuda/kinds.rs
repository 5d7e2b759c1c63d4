//! Every kind of memory that a device reaches or does not: what `CUDNN_SHIM_CHECK` says of it, and
//! what the double does to a kernel that touches it all the same.

use std::ffi::c_void;
use std::ptr;

use crate::api::{self, BAD_PARAM, Opaque, SUCCESS};
use crate::child;
use crate::complaints::{KERNELS, Start, check, ints, libraries, ptx};
use crate::double::{self, Memory, Object, count};
use crate::launch::{Transpose, current, destroy};

/// What address space is mapped by.
const SEGMENT: usize = 2 << 20;

fn pointer(address: u64) -> *mut c_void {
    ptr::without_provenance_mut(address as usize)
}

/// Calls that return 0, with a place for an address.
fn address(call: impl FnOnce(*mut u64) -> i32) -> u64 {
    let mut address = 0;
    assert_eq!(call(&mut address), 0);
    address
}

fn synchronize() -> i32 {
    // SAFETY: no arguments.
    unsafe { double::cuCtxSynchronize() }
}

/// Address space with memory of a device in these segments of it, reached by `reader`.
fn segments(count: usize, mapped: &[usize], device: i32, reader: i32) -> u64 {
    // SAFETY: places for results, and structures as far as the double reads them.
    unsafe {
        let start = address(|at| double::cuMemAddressReserve(at, count * SEGMENT, 0, 0, 0));
        for segment in mapped {
            let at = start + (segment * SEGMENT) as u64;
            let mut memory: Object = ptr::null_mut();
            let properties = [1_i32, 0, 1, device, 0, 0, 0, 0, 0, 0];
            assert_eq!(double::cuMemCreate(&mut memory, SEGMENT, properties.as_ptr().cast(), 0), 0);
            assert_eq!(double::cuMemMap(at, SEGMENT, 0, memory, 0), 0);
            let access = [1_i32, reader, 3];
            assert_eq!(double::cuMemSetAccess(at, SEGMENT, access.as_ptr().cast(), 1), 0);
        }
        start
    }
}

fn write(address: u64, bytes: &[u8]) {
    // SAFETY: the test's own memory.
    unsafe { assert_eq!(double::cuMemcpyHtoD_v2(address, bytes.as_ptr().cast(), bytes.len()), 0) };
}

fn read(address: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    // SAFETY: as above.
    unsafe { assert_eq!(double::cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), address, size), 0) };
    bytes
}

/// Runs `body` with a handle whose every call is checked.
fn checked(body: impl FnOnce(Opaque, Transpose)) {
    double::run(&[("CUDNN_SHIM_CHECK", "1")], || {
        double::use_device(0);
        let handle = api::create().expect("a handle");
        body(handle, Transpose::new());
        destroy(handle);
    });
}

/// The call is refused with a sentence of these parts, and nothing is queued.
fn refused(transpose: &Transpose, handle: Opaque, (x, y): (u64, u64), parts: &[&str]) {
    let launches = count("cuLaunchKernel");
    assert_eq!(transpose.call(handle, pointer(x), pointer(y)), BAD_PARAM);
    let text = api::last_error();
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    assert_eq!(count("cuLaunchKernel"), launches);
}

/// The call works with `x` and `y` at these addresses.
fn served(transpose: &Transpose, handle: Opaque, (x, y): (u64, u64)) {
    write(x, &transpose.x);
    let status = transpose.call(handle, pointer(x), pointer(y));
    assert_eq!(status, SUCCESS, "{}", api::last_error());
    assert!(read(y, transpose.want.len()) == transpose.want);
}

#[test]
fn the_argument_whose_memory_does_not_serve_is_named() {
    double::run(&[("CUDNN_SHIM_CHECK", "1")], || {
        double::use_device(1);
        let elsewhere = Memory::new(&[0; 140]);
        double::use_device(0);
        let handle = api::create().expect("a handle");
        let transpose = Transpose::new();
        let (x, y) = (Memory::new(&transpose.x), Memory::new(&transpose.want));
        let short = Memory::new(&transpose.x[4..]);
        let host = transpose.x.as_ptr().addr() as u64;
        // The first calls, and those that nobody would look at.
        for _ in 0..4 {
            refused(&transpose, handle, (host, y.address), &["x = ", "host pointer"]);
            refused(&transpose, handle, (x.address, host), &["y = ", "host pointer"]);
            refused(&transpose, handle, (short.address, y.address), &["x = ", "bytes 0 to 136"]);
            refused(&transpose, handle, (x.address, short.address), &["y = ", "bytes 0 to 140"]);
            refused(&transpose, handle, (x.address, y.address + 4), &["y = ", "bytes -4 to 136"]);
            refused(&transpose, handle, (elsewhere.address, y.address), &["x = ", "device 1"]);
        }
        assert!(transpose.works(handle));
        destroy(handle);
    });
}

#[test]
fn memory_that_hosts_reach_too() {
    checked(|handle, transpose| {
        let size = transpose.x.len();
        let y = Memory::new(&transpose.want);
        // SAFETY: places for results; the registered memory lives until it is taken back.
        unsafe {
            let managed = address(|at| double::cuMemAllocManaged(at, size, 1));
            served(&transpose, handle, (managed, y.address));
            served(&transpose, handle, (y.address, managed));
            let locked = address(|at| double::cuMemHostAlloc(at, size, 0));
            served(&transpose, handle, (locked, y.address));
            let parts = ["x = ", "covers bytes 0 to 140", "bytes -4 to 136"];
            refused(&transpose, handle, (locked + 4, y.address), &parts);
            let own = transpose.x.clone();
            let registered = own.as_ptr().addr() as u64;
            refused(&transpose, handle, (registered, y.address), &["x = ", "host pointer"]);
            assert_eq!(double::cuMemHostRegister_v2(registered, size, 0), 0);
            served(&transpose, handle, (registered, y.address));
            assert_eq!(double::cuMemHostUnregister(registered), 0);
            refused(&transpose, handle, (registered, y.address), &["x = ", "host pointer"]);
            assert_eq!(double::cuMemFreeHost(locked), 0);
            assert_eq!(double::cuMemFree_v2(managed), 0);
        }
    });
}

#[test]
fn memory_of_a_pool() {
    checked(|handle, transpose| {
        let y = Memory::new(&transpose.want);
        // SAFETY: a place for the result, then that memory.
        unsafe {
            let pooled = address(|at| double::cuMemAllocAsync(at, transpose.x.len(), ptr::null_mut()));
            served(&transpose, handle, (pooled, y.address));
            refused(&transpose, handle, (pooled + 4, y.address), &["x = ", "bytes -4 to 136"]);
            assert_eq!(double::cuMemFreeAsync(pooled, ptr::null_mut()), 0);
            assert_eq!(synchronize(), 0);
            refused(
                &transpose,
                handle,
                (pooled, y.address),
                &["x = ", "no memory that the CUDA driver knows"],
            );
        }
    });
}

#[test]
fn memory_of_several_segments() {
    checked(|handle, transpose| {
        let y = Memory::new(&transpose.want);
        let start = segments(4, &[0, 1, 3], 0, 0);
        let at = |segment: usize, before: u64| start + (segment * SEGMENT) as u64 - before;
        // Over the seam of two segments; to the last byte in front of a gap, and beyond it; and
        // from within the gap.
        served(&transpose, handle, (at(1, 68), y.address));
        served(&transpose, handle, (y.address, at(1, 4)));
        served(&transpose, handle, (at(2, 140), y.address));
        refused(&transpose, handle, (at(2, 136), y.address), &["x = ", "bytes -2097016 to 136"]);
        refused(
            &transpose,
            handle,
            (at(3, 68), y.address),
            &["x = ", "no memory that the CUDA driver knows"],
        );
        // SAFETY: a segment of the test's own.
        unsafe { assert_eq!(double::cuMemUnmap(at(1, 0), SEGMENT), 0) };
        refused(&transpose, handle, (at(1, 68), y.address), &["x = ", "to 68"]);
        // Segments that another device reaches.
        let other = segments(1, &[0], 0, 1);
        refused(&transpose, handle, (other, y.address), &["x = ", "cannot be reached from device 0"]);
    });
}

#[test]
fn memory_of_a_peer() {
    double::run(&[("CUDNN_SHIM_CHECK", "1")], || {
        double::use_device(1);
        let (there, x) = (current(), Memory::new(&Transpose::new().x));
        double::use_device(0);
        let (handle, transpose) = (api::create().expect("a handle"), Transpose::new());
        let y = Memory::new(&transpose.want);
        refused(
            &transpose,
            handle,
            (x.address, y.address),
            &["x = ", "(device 1) cannot be reached from device 0"],
        );
        // SAFETY: a context that is alive.
        unsafe { assert_eq!(double::cuCtxEnablePeerAccess(there, 0), 0) };
        served(&transpose, handle, (x.address, y.address));
        destroy(handle);
    });
}

/// What happens to kernels without a library in between: `address` gives them memory, and they
/// leave `complaint`.
fn touched(variables: &[(&str, &str)], address: impl FnOnce() -> u64, complaint: &str) {
    let output = child::start(&libraries(), variables, || {
        double::use_device(0);
        assert_eq!(Start::of("write_there").run(&ptx(KERNELS, 16), address()), 700);
    });
    check(output, complaint);
}

#[test]
fn kernels_that_touch_a_peer_that_they_do_not_reach() {
    let memory = || {
        double::use_device(1);
        let memory = Memory::new(&[0; 256]);
        double::use_device(0);
        let address = memory.address;
        std::mem::forget(memory);
        address
    };
    touched(&[], memory, "which device 0 does not reach");
}

#[test]
fn kernels_that_touch_a_gap_between_segments() {
    touched(&[], || segments(2, &[0], 0, 0) + SEGMENT as u64 - 128, "write_there: thread 32");
}

#[test]
fn kernels_that_touch_segments_without_access() {
    touched(&[], || segments(1, &[0], 0, 1), "which device 0 does not reach");
}

#[test]
fn kernels_that_touch_what_a_pool_took_back() {
    let memory = || {
        // SAFETY: a place for the result; the memory goes when the stream comes to it, which is
        // before the kernel.
        unsafe {
            let pooled = address(|at| double::cuMemAllocAsync(at, 256, ptr::null_mut()));
            assert_eq!(double::cuMemFreeAsync(pooled, ptr::null_mut()), 0);
            pooled
        }
    };
    touched(&[], memory, "write_there: thread 0");
}

#[test]
fn kernels_that_touch_what_is_registered_no_more() {
    let memory = || {
        let own = vec![0_u8; 256].leak().as_ptr().addr() as u64;
        // SAFETY: memory that stays.
        unsafe {
            assert_eq!(double::cuMemHostRegister_v2(own, 256, 0), 0);
            assert_eq!(double::cuMemHostUnregister(own), 0);
        }
        own
    };
    touched(&[], memory, "which is host memory");
}

#[test]
fn kernels_reach_every_kind_of_memory_that_they_may() {
    child::run(&libraries(), &[], || {
        double::use_device(0);
        let own = vec![0_u8; 256].leak().as_ptr().addr() as u64;
        // SAFETY: places for results, and memory that stays.
        let places = unsafe {
            assert_eq!(double::cuMemHostRegister_v2(own, 256, 0), 0);
            [
                own,
                address(|at| double::cuMemAllocManaged(at, 256, 1)),
                address(|at| double::cuMemHostAlloc(at, 256, 0)),
                address(|at| double::cuMemAllocAsync(at, 256, ptr::null_mut())),
                segments(2, &[0, 1], 0, 0) + SEGMENT as u64 - 128,
            ]
        };
        for place in places {
            write(place, &ints(0..64));
            assert_eq!(Start::of("reverse").run(&ptx(KERNELS, 16), place), 0);
            assert_eq!(read(place, 256), ints((0..64).rev()));
        }
        // Memory that the host reaches, too, it reads without asking.
        for place in &places[..3] {
            let bytes = ptr::with_exposed_provenance::<i32>(*place as usize);
            // SAFETY: 64 numbers, which nothing writes any more.
            assert_eq!(unsafe { bytes.read_volatile() }, 63);
        }
    });
}

#[test]
fn kernels_reach_the_host_where_the_device_is_said_to() {
    child::run(&libraries(), &[("DRIVER_DOUBLE_PAGEABLE", "1")], || {
        double::use_device(0);
        let own = ints(0..64).leak().as_ptr().addr() as u64;
        assert_eq!(Start::of("reverse").run(&ptx(KERNELS, 16), own), 0);
        let bytes = ptr::with_exposed_provenance::<i32>(own as usize);
        // SAFETY: 64 numbers, which nothing writes any more.
        assert_eq!(unsafe { bytes.read_unaligned() }, 63);
    });
}
