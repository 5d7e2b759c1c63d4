"""Runs a command with ONNX Runtime, OpenVINO, PyTorch and this library held to AVX2, on a processor that has more.

usage: held_peers.py FOLDER COMMAND...

The first two have no switch. FOLDER gets copies of their packages, as they are installed for this Python, in whose libraries every `cpuid` becomes
a trap, and a library to preload that answers it without AVX-512 and AMX (held_peers.c). What is there already serves again. Needs a C compiler and
objdump (binutils) and a processor of x86-64. Example:

    python benches/held_peers.py held python benches/networks_peers.py target/networks --threads 2
"""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

# The libraries that ask what the processor has, by package.
LIBRARIES = {
    "onnxruntime": ["capi/onnxruntime_pybind11_state*.so", "capi/libonnxruntime.so.*"],
    "openvino": ["libs/libopenvino.so.*", "libs/libopenvino_intel_cpu_plugin.so", "libs/libtbb.so.*"],
}
CPUID, TRAP = b"\x0f\xa2", b"\xcc\x90"


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def hold(library):
    """Replaces every `cpuid` of a library; how many there were."""
    data = bytearray(library.read_bytes())
    words = (line.split() for line in output("objdump", "-h", library).splitlines())
    sections = [[int(word, 16) for word in (row[3], row[2], row[5])] for row in words if len(row) == 7 and row[0].isdigit()]
    places = re.findall(r"^\s*([0-9a-f]+):\s+cpuid", output("objdump", "-d", "--no-show-raw-insn", library), re.MULTILINE)
    for place in (int(place, 16) for place in places):
        at = next(place - first + offset for first, size, offset in sections if first <= place < first + size)
        if data[at:at + 2] != CPUID:
            sys.exit(f"{library}: no cpuid at {at}")
        data[at:at + 2] = TRAP
    library.write_bytes(data)
    return len(places)


def prepare(folder):
    for package, patterns in LIBRARIES.items():
        spec = importlib.util.find_spec(package)
        if spec is None or (folder / package).exists():
            continue
        copy = folder / f"{package}.part"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(pathlib.Path(spec.origin).parent, copy)
        for library in (file for pattern in patterns for file in copy.glob(pattern)):
            print(f"{library.name}: {hold(library)} places", file=sys.stderr)
        copy.rename(folder / package)
    source = pathlib.Path(__file__).with_suffix(".c")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", source, "-o", folder / "held.so"], check=True)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    prepare(folder)
    held = {
        "CUDNN_SHIM_ISA": "avx2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "LD_PRELOAD": str(folder / "held.so"),
        "PYTHONPATH": str(folder),
    }
    os.execvpe(sys.argv[2], sys.argv[2:], {**os.environ, **held})


if __name__ == "__main__":
    main()
