#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every source file of ours starts with an SPDX line. Exit status 1 and a list if one does not."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINE = "SPDX-License-Identifier: Apache-2.0"
SUFFIXES = {".h", ".cpp", ".cmake", ".py", ".sh"}


def needs_line(path):
    return (path.suffix in SUFFIXES or path.name == "CMakeLists.txt" or str(path) in ("dev", ".ci/run")) and \
        not str(path).startswith("tests/data/")


def main():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    paths = [pathlib.Path(p) for p in listed if needs_line(pathlib.Path(p)) and (ROOT / p).exists()]
    bad = [str(p) for p in paths if LINE not in "".join((ROOT / p).read_text().splitlines(True)[:2])]
    for path in bad:
        print(f"{path}: no '{LINE}' in the first two lines")
    print(f"spdx: {len(paths) - len(bad)} of {len(paths)} files carry the line")
    return 1 if bad or not paths else 0


sys.exit(main())
