#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails if an object file compiled for an instruction set defines a weak symbol.

Weak symbols (inline functions, templates) are merged by the linker: it may keep the copy compiled with AVX for code that runs
before the CPU was checked, and older CPUs would crash. Usage: check_isa_symbols.py OBJECT...
"""
import subprocess
import sys


def weak_symbols(path):
    listing = subprocess.run(["nm", "--demangle", "--defined-only", path], check=True, capture_output=True, text=True).stdout
    for line in listing.splitlines():
        _, kind, name = line.split(maxsplit=2)
        if kind in "WwVvu":
            yield name


def main():
    objects = sys.argv[1:]
    if not objects:
        sys.exit("no object files given")
    found = [f"{path}: {name}" for path in objects for name in weak_symbols(path)]
    for line in found:
        print(line)
    print(f"{len(objects)} object files, {len(found)} weak symbols")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
