"""The package as a whole: the library that it loads, threads, and its command."""

import ctypes
import os
import shutil
import subprocess
import sys
import threading

import numpy
import pytest

import cudnn_shim


def test_the_library_is_ours_beside_another_of_the_same_name(tmp_path):
    # Another library of the process has brought a libcudnn.so.9 of its own, as PyTorch does.
    other = tmp_path / "libcudnn.so.9"
    shutil.copy(cudnn_shim.library_path(), other)
    program = f"""
import ctypes, os
ctypes.CDLL({str(other)!r}, ctypes.RTLD_GLOBAL)
import cudnn_shim
cudnn_shim.version()
print(any(os.path.realpath(cudnn_shim.library_path()) in line for line in open("/proc/self/maps")))
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout == "True\n"


def test_a_library_that_is_not_there_is_named():
    program = "import cudnn_shim; cudnn_shim.version()"
    environment = {**os.environ, "CUDNN_SHIM_LIBRARY": "/nowhere/libcudnn.so.9"}
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert said.returncode != 0 and "/nowhere/libcudnn.so.9 is missing" in said.stderr


def test_versions():
    assert cudnn_shim.version() == 92700
    assert cudnn_shim.current_handle().core in ("cpu", "cuda")


def test_calls_without_a_status_answer_what_they_return():
    assert cudnn_shim.call("cudnnGetVersion") == cudnn_shim.version()
    assert cudnn_shim.call("cudnnGetCudartVersion") >= 11000
    assert cudnn_shim.call("cudnnGetMaxDeviceVersion") >= 0
    assert cudnn_shim.call("cudnnGetErrorString", 2000) == b"CUDNN_STATUS_BAD_PARAM"
    text = ctypes.create_string_buffer(b"?", 64)
    assert cudnn_shim.call("cudnnGetLastErrorString", text, len(text)) is None
    assert text.value != b"?"


def test_calls_that_cannot_be_made_are_refused():
    with pytest.raises(ValueError, match="'cudnnGetVersio' is no call of"):
        cudnn_shim.call("cudnnGetVersio")
    with pytest.raises(ValueError, match="cudnnDestroy: 2 arguments; must be 1"):
        cudnn_shim.call("cudnnDestroy", None, None)
    with pytest.raises(ValueError, match="cudnnSetStream: argument 2 is 65536"):
        cudnn_shim.call("cudnnSetStream", cudnn_shim.current_handle(), 1 << 16)
    # A call without a signature takes objects of ctypes.
    stream = ctypes.c_void_p(1)
    assert cudnn_shim.call("cudnnGetStream", cudnn_shim.current_handle(), ctypes.byref(stream)) is None
    assert stream.value is None


def test_threads_have_handles_of_their_own():
    handles, failures = [], []

    def work():
        try:
            x = numpy.ones((1, 2, 3, 3), numpy.float32)
            for _ in range(100):
                assert (cudnn_shim.softmax(x) == 0.5).all()
            handles.append(cudnn_shim.current_handle()._as_parameter_.value)
        except Exception as failure:  # pylint: disable=broad-except
            failures.append(failure)

    threads = [threading.Thread(target=work) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failures and len(set(handles)) == 8


@pytest.mark.parametrize("with_host_cuda", [False, True])
def test_the_command_tells_the_environment(tmp_path, with_host_cuda):
    folder = tmp_path / "a folder"
    folder.mkdir()
    (folder / "libcudnn.so.9").symlink_to(os.path.abspath(cudnn_shim.library_path()))
    if with_host_cuda:
        (folder / "host-cuda").mkdir()
    said = subprocess.run(
        [sys.executable, "-m", "cudnn_shim", "env"], capture_output=True, text=True, check=True,
        env={**os.environ, "CUDNN_SHIM_LIBRARY": str(folder / "libcudnn.so.9")},
    )
    shell = subprocess.run(
        ["sh", "-c", said.stdout + 'printf "%s %s" "$CUDNN_SHIM_BACKEND" "$LD_LIBRARY_PATH"'], capture_output=True,
        text=True, check=True, env={"LD_LIBRARY_PATH": "/elsewhere"},
    )
    between = f"{folder}/host-cuda:" if with_host_cuda else ""
    assert shell.stdout == f"cpu {folder}:{between}/elsewhere"


def test_the_wheel_has_the_cuda_of_the_host():
    folder = os.path.join(os.path.dirname(cudnn_shim.library_path()), "host-cuda")
    if "CUDNN_SHIM_LIBRARY" in os.environ:
        pytest.skip("the CUDA of the host comes with the wheel; this run is on another library")
    assert any(name.startswith("libcudart.so") for name in os.listdir(folder))
    said = subprocess.run([sys.executable, "-m", "cudnn_shim", "env"], capture_output=True, text=True, check=True)
    assert folder in said.stdout


def test_the_command_runs_the_tool():
    tool = os.path.join(os.path.dirname(cudnn_shim.__file__), "bin", "cudnn-shim")
    if not os.path.exists(tool):
        pytest.skip("the tool comes with the wheel only")
    command = [sys.executable, "-m", "cudnn_shim", "run", sys.executable, "-c"]
    program = """
import ctypes, sys
library = ctypes.CDLL("libcudnn.so.9")
library.cudnnGetVersion.restype = ctypes.c_size_t
sys.exit(library.cudnnGetVersion() == 92700 and 7)
"""
    assert subprocess.run([*command, program]).returncode == 7
