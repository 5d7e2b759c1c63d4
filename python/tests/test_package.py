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


def test_the_command_tells_the_environment():
    said = subprocess.run([sys.executable, "-m", "cudnn_shim", "env"], capture_output=True, text=True, check=True)
    folder = os.path.dirname(cudnn_shim.library_path())
    shell = subprocess.run(
        ["sh", "-c", said.stdout + 'printf %s "$LD_LIBRARY_PATH"'], capture_output=True, text=True, check=True,
        env={"LD_LIBRARY_PATH": "/elsewhere"},
    )
    assert shell.stdout == f"{folder}:/elsewhere"


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
