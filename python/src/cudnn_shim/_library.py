"""The shared library: where it lies, how it is loaded, and the signatures of the calls that this package makes."""

from __future__ import annotations

import ctypes as C
import os
import threading
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent

# One letter an argument: p pointer or handle, i int, l int64_t, z size_t, d double. Pointers to scalars are passed by
# `byref`, arrays and addresses as they are.
_SIGNATURES = {
    "cudnnCreate": "p",
    "cudnnDestroy": "p",
    "cudnnCreateTensorDescriptor": "p",
    "cudnnDestroyTensorDescriptor": "p",
    "cudnnSetTensorNdDescriptor": "piipp",
    "cudnnSetTensorNdDescriptorEx": "piiip",
    "cudnnGetTensorNdDescriptor": "pipppp",
    "cudnnGetTensorSizeInBytes": "pp",
    "cudnnCreateFilterDescriptor": "p",
    "cudnnDestroyFilterDescriptor": "p",
    "cudnnSetFilterNdDescriptor": "piiip",
    "cudnnCreateConvolutionDescriptor": "p",
    "cudnnDestroyConvolutionDescriptor": "p",
    "cudnnSetConvolutionNdDescriptor": "pipppii",
    "cudnnSetConvolutionGroupCount": "pi",
    "cudnnGetConvolutionNdForwardOutputDim": "pppip",
    "cudnnGetConvolutionForwardAlgorithm_v7": "pppppipp",
    "cudnnGetConvolutionBackwardDataAlgorithm_v7": "pppppipp",
    "cudnnGetConvolutionBackwardFilterAlgorithm_v7": "pppppipp",
    "cudnnConvolutionForward": "pp pp pp p i pz p pp",
    "cudnnConvolutionBiasActivationForward": "pp pp pp p i pz p pp pp p pp",
    "cudnnConvolutionBackwardData": "pp pp pp p i pz p pp",
    "cudnnConvolutionBackwardFilter": "pp pp pp p i pz p pp",
    "cudnnConvolutionBackwardBias": "pp pp p pp",
    "cudnnCreatePoolingDescriptor": "p",
    "cudnnDestroyPoolingDescriptor": "p",
    "cudnnSetPoolingNdDescriptor": "piiippp",
    "cudnnGetPoolingNdForwardOutputDim": "ppip",
    "cudnnPoolingForward": "pp p pp p pp",
    "cudnnPoolingBackward": "pp p pp pp pp p pp",
    "cudnnCreateActivationDescriptor": "p",
    "cudnnDestroyActivationDescriptor": "p",
    "cudnnSetActivationDescriptor": "piid",
    "cudnnActivationForward": "pp p pp p pp",
    "cudnnActivationBackward": "pp p pp pp pp p pp",
    "cudnnSoftmaxForward": "pii p pp p pp",
    "cudnnSoftmaxBackward": "pii p pp pp p pp",
    "cudnnCreateLRNDescriptor": "p",
    "cudnnDestroyLRNDescriptor": "p",
    "cudnnSetLRNDescriptor": "piddd",
    "cudnnLRNCrossChannelForward": "ppi p pp p pp",
    "cudnnLRNCrossChannelBackward": "ppi p pp pp pp p pp",
    "cudnnDeriveBNTensorDescriptor": "ppi",
    "cudnnBatchNormalizationForwardInference": "pi pp pp pp p pppp d",
    "cudnnBatchNormalizationForwardTraining": "pi pp pp pp p pp d pp d pp",
    "cudnnBatchNormalizationBackward": "pi pppp pp pp pp p ppp d pp",
    "cudnnTransformTensor": "pp pp p pp",
    "cudnnShimSetTensorFromDLPack": "pppp",
    "cudnnShimGetTensorAsDLPack": "pppippp",
    "cudnnShimGetCore": "pzp",
    "cudnnShimSetTensorLayout": "pipip",
    "cudnnShimGetTensorLayout": "pzp",
    "cudnnShimGetTensorIndex": "plip",
    "cudnnShimMatmul": "pp pp pp p pp",
}

# Calls that answer no status: what they return, and their arguments.
_ANSWERS = {
    "cudnnGetVersion": (C.c_size_t, ""),
    "cudnnGetMaxDeviceVersion": (C.c_size_t, ""),
    "cudnnGetCudartVersion": (C.c_size_t, ""),
    "cudnnGetErrorString": (C.c_char_p, "i"),
    "cudnnGetLastErrorString": (None, "pz"),
}

_TYPES = {"p": C.c_void_p, "i": C.c_int, "l": C.c_int64, "z": C.c_size_t, "d": C.c_double}


class Error(RuntimeError):
    """A call that the library refused.

    `status` is the number of the `cudnnStatus_t`, `call` the name of the function; the text names the argument, its
    value and the rule.
    """

    def __init__(self, call: str, status: int, text: str) -> None:
        super().__init__(f"{call}: {text}")
        self.call = call
        self.status = status
        self.text = text


def library_path() -> str:
    """The shared library that this package loads: its own, or the one that CUDNN_SHIM_LIBRARY names."""
    named = os.environ.get("CUDNN_SHIM_LIBRARY")
    return named if named else str(_HERE / "lib" / "libcudnn.so.9")


_lock = threading.Lock()
_loaded: C.CDLL | None = None


def _functions() -> C.CDLL:
    """Loads the library once.

    By its path, and not by its name: another library of this process may have brought a libcudnn.so.9 of its own, and
    the loader would answer with that one.
    """
    global _loaded
    with _lock:
        if _loaded is None:
            path = library_path()
            if not os.path.exists(path):
                raise ImportError(f"{path} is missing: install the wheel, or name a library in CUDNN_SHIM_LIBRARY")
            library = C.CDLL(os.path.abspath(path))
            statuses = {name: (C.c_int, letters) for name, letters in _SIGNATURES.items()}
            for name, (answer, letters) in {**statuses, **_ANSWERS}.items():
                function = getattr(library, name)
                function.restype = answer
                function.argtypes = [_TYPES[letter] for letter in letters.replace(" ", "")]
            _loaded = library
        return _loaded


def _check_arguments(name: str, function: Any, arguments: tuple[Any, ...]) -> None:
    """Refuses what ctypes would pass on in a wrong shape."""
    wanted = function.argtypes
    if wanted is not None and len(arguments) != len(wanted):
        raise ValueError(f"{name}: {len(arguments)} arguments; must be {len(wanted)}")
    for place, argument in enumerate(arguments):
        # Without a signature ctypes passes an int as 32 bits, which cuts off half of an address.
        if wanted is None and isinstance(argument, (int, float)):
            raise ValueError(
                f"{name}: argument {place + 1} is {argument!r}; this package has no signature of the call, so give "
                "each argument as a ctypes object, such as ctypes.c_int(1)"
            )


def call(name: str, *arguments: Any) -> Any:
    """Makes one call of the C interface; raises `Error` with the library's own sentence if it is refused.

    Returns None, or what a call answers that has no status: a number of `cudnnGetVersion`.
    """
    functions = _functions()
    try:
        function = getattr(functions, name)
    except AttributeError:
        raise ValueError(f"name: {name!r} is no call of {library_path()}") from None
    _check_arguments(name, function, arguments)
    if name in _ANSWERS:
        return function(*arguments)
    status = function(*arguments)
    if status != 0:
        detail = C.create_string_buffer(1024)
        functions.cudnnGetLastErrorString(detail, len(detail))
        text = functions.cudnnGetErrorString(status).decode()
        if detail.value:
            text += f" - {detail.value.decode(errors='replace')}"
        raise Error(name, status, text)
    return None


def version() -> int:
    """What `cudnnGetVersion` answers, such as 92700."""
    return int(call("cudnnGetVersion"))


class Owned:
    """An object of the library that is destroyed with its Python object. Subclasses name its kind."""

    kind = ""

    def __init__(self) -> None:
        self._as_parameter_ = C.c_void_p()
        call(f"cudnnCreate{self.kind}", C.byref(self._as_parameter_))

    def __del__(self) -> None:
        # Neither exists if the constructor failed, and the library may be gone when the interpreter ends.
        value = getattr(self, "_as_parameter_", None)
        if value and _loaded is not None:
            getattr(_loaded, f"cudnnDestroy{self.kind}")(value)


class Handle(Owned):
    """A handle of the library. It serves one thread at a time, and is bound to the CPU or to a CUDA device for its life."""

    @property
    def core(self) -> str:
        """`cpu` or `cuda`."""
        name = C.create_string_buffer(16)
        call("cudnnShimGetCore", self, len(name), name)
        return name.value.decode()


_threads = threading.local()


def current_handle() -> Handle:
    """The calling thread's handle, made when it is first needed."""
    handle = getattr(_threads, "handle", None)
    if handle is None:
        handle = _threads.handle = Handle()
    return handle
