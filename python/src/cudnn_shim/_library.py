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
            for name, letters in _SIGNATURES.items():
                function = getattr(library, name)
                function.restype = C.c_int
                function.argtypes = [_TYPES[letter] for letter in letters.replace(" ", "")]
            library.cudnnGetErrorString.restype = C.c_char_p
            library.cudnnGetErrorString.argtypes = [C.c_int]
            library.cudnnGetLastErrorString.restype = None
            library.cudnnGetLastErrorString.argtypes = [C.c_char_p, C.c_size_t]
            library.cudnnGetVersion.restype = C.c_size_t
            _loaded = library
        return _loaded


def call(name: str, *arguments: Any) -> None:
    """Makes one call of the C interface; raises `Error` with the library's own sentence if it is refused."""
    functions = _functions()
    status = getattr(functions, name)(*arguments)
    if status != 0:
        detail = C.create_string_buffer(1024)
        functions.cudnnGetLastErrorString(detail, len(detail))
        text = functions.cudnnGetErrorString(status).decode()
        if detail.value:
            text += f" - {detail.value.decode(errors='replace')}"
        raise Error(name, status, text)


def version() -> int:
    """What `cudnnGetVersion` answers, such as 92700."""
    return int(_functions().cudnnGetVersion())


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
