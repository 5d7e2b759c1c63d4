"""`python -m cudnn_shim`: the command line tool that comes with the package, and the environment for programs.

    python -m cudnn_shim run PROGRAM [ARGUMENT]...    starts a program on the library of this package
    python -m cudnn_shim env                          lines for a shell that lead programs to it
    python -m cudnn_shim doctor PROGRAM               and every other word of the tool
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from . import library_path


def environment() -> str:
    """What a shell evaluates so that the loader finds the library and the CUDA of the host first, as `run` has it."""
    library = Path(library_path()).absolute().parent
    folders = [folder for folder in (library, library / "host-cuda") if folder.is_dir()]
    path = ":".join(shlex.quote(str(folder)) for folder in folders)
    return f"export CUDNN_SHIM_BACKEND=cpu\nexport LD_LIBRARY_PATH={path}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if arguments else 2
    if arguments == ["env"]:
        print(environment())
        return 0
    tool = Path(__file__).resolve().parent / "bin" / "cudnn-shim"
    if not tool.exists():
        print(f"{tool} is missing: this is the source tree, and not an installed wheel", file=sys.stderr)
        return 2
    # The tool takes the place of this process, so that signals and the exit status are the program's.
    os.execv(tool, [str(tool), *arguments])


def command() -> None:
    """The program `cudnn-shim` of the wheel."""
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    command()
