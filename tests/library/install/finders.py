"""Reads the version as configuration scripts in Python do: line by line, from the start of the line."""

import re
import sys


def version(header):
    found = {}
    with open(header, encoding="utf-8") as lines:
        for line in lines:
            for name in ("CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL"):
                match = re.match(r"#define %s +(\d+)" % name, line)
                if match:
                    found[name] = match.group(1)
    return ".".join(found.get(name, "?") for name in ("CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL"))


for path in sys.argv[1:]:
    print(version(path))
