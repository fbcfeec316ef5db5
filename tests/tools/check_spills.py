#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails if a hot loop of the kernels keeps a vector on the stack.

    check_spills.py [--verbose] [--function REGEX] [--allow REGEX=PERCENT]... OBJECT...

Reads `objdump -d`. A hot loop is a loop that multiplies and adds vectors or dots integers (loops inside it count by
themselves). In it, a vector register stored to a fixed place of the stack frame, or an operand read from one, is a spill:
each costs a load or store port in every round. An array of the function's own is addressed with an index and is none.
Only functions that --function matches
are looked at. --allow lets each loop whose "OBJECT: FUNCTION" it matches have so many in a hundred instructions (the last
match counts). No hot loop at all fails too: it would prove nothing.
"""
import argparse
import re
import subprocess
import sys

FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*)$")
TARGET = re.compile(r"^([0-9a-f]+) <")
HOT = re.compile(r"^v(fn?m(add|sub)\d+p[sd]|pmadd(wd|ubsw)|pdp(bu|ws)sds?|dpbf16ps)$")
VECTOR = re.compile(r"%[xyz]mm\d+")


def functions(path):
    """Yields (name, [(address, mnemonic, operands)])."""
    listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "--demangle", path], check=True, capture_output=True, text=True)
    name, code = None, []
    for line in listing.stdout.splitlines():
        if match := FUNCTION.match(line):
            if code:
                yield name, code
            name, code = match.group(1), []
        elif (match := INSTRUCTION.match(line)) and name:
            code.append((int(match.group(1), 16), match.group(2), match.group(3)))
    if code:
        yield name, code


def blocks_of(code):
    """Basic blocks as (first, last, successors): indices of the code, and of blocks. Calls and traps fall through."""
    index = {address: i for i, (address, _, _) in enumerate(code)}
    jumps = {}
    for i, (_, mnemonic, operands) in enumerate(code):
        if mnemonic.startswith("j"):
            match = TARGET.match(operands)
            jumps[i] = index.get(int(match.group(1), 16)) if match else None
    ends = {i for i, (_, mnemonic, _) in enumerate(code) if i in jumps or mnemonic.startswith("ret")}
    starts = sorted({0} | {i + 1 for i in ends if i + 1 < len(code)} | {t for t in jumps.values() if t is not None})
    number = {start: n for n, start in enumerate(starts)}
    blocks = []
    for n, start in enumerate(starts):
        last = (starts[n + 1] if n + 1 < len(starts) else len(code)) - 1
        mnemonic = code[last][1]
        successors = [number[jumps[last]]] if jumps.get(last) is not None else []
        if not mnemonic.startswith(("jmp", "ret")) and n + 1 < len(starts):
            successors.append(n + 1)
        blocks.append((start, last, successors))
    # A jump through a table says not where to. What nothing else reaches is taken for its target.
    reached, open_blocks = set(), []
    for n in range(len(blocks)):
        if n in reached:
            continue
        if n > 0:
            blocks[0][2].append(n)
        open_blocks.append(n)
        while open_blocks:
            block = open_blocks.pop()
            if block not in reached:
                reached.add(block)
                open_blocks += blocks[block][2]
    return blocks


def loops_of(code):
    """Natural loops as lists of code indices in order, each without the loops inside it."""
    blocks = blocks_of(code)
    predecessors = [[] for _ in blocks]
    for n, (_, _, successors) in enumerate(blocks):
        for successor in successors:
            predecessors[successor].append(n)
    everything = (1 << len(blocks)) - 1
    dominators = [1] + [everything] * (len(blocks) - 1)
    changed = True
    while changed:
        changed = False
        for n in range(1, len(blocks)):
            common = everything if predecessors[n] else 0
            for predecessor in predecessors[n]:
                common &= dominators[predecessor]
            common |= 1 << n
            if common != dominators[n]:
                dominators[n], changed = common, True
    loops = {}  # header -> blocks
    for n, (_, _, successors) in enumerate(blocks):
        for header in successors:
            if not dominators[n] >> header & 1:
                continue
            body, open_blocks = loops.setdefault(header, {header}), [n]
            while open_blocks:
                block = open_blocks.pop()
                if block not in body:
                    body.add(block)
                    open_blocks += predecessors[block]
    own = {}  # header of the innermost loop -> its blocks
    for n in range(len(blocks)):
        around = [header for header, body in loops.items() if n in body]
        if around:
            own.setdefault(min(around, key=lambda header: len(loops[header])), []).append(n)
    for _, body in sorted(own.items()):
        yield [i for n in body for i in range(blocks[n][0], blocks[n][1] + 1)]


def spills(code, loop):
    """Vector instructions of the loop with an operand at a fixed place of the stack frame."""
    bases = ["rsp"]
    if any(mnemonic == "mov" and operands == "%rsp,%rbp" for _, mnemonic, operands in code):
        bases.append("rbp")
    place = re.compile(r"(-?0x[0-9a-f]+)?\(%(" + "|".join(bases) + r")\)")
    return [f"{mnemonic} {operands}" for _, mnemonic, operands in (code[i] for i in loop)
            if VECTOR.search(operands) and place.search(operands)]


def allowance(text):
    expression, _, percent = text.rpartition("=")
    return re.compile(expression), int(percent)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verbose", action="store_true", help="list every hot loop")
    parser.add_argument("--function", type=re.compile, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--allow", type=allowance, action="append", default=[], metavar="REGEX=PERCENT")
    parser.add_argument("objects", nargs="+", metavar="OBJECT")
    args = parser.parse_args()
    hot = allowed = bad = 0
    for path in args.objects:
        for name, code in functions(path):
            if not args.function.search(name):
                continue
            title = f"{path}: {name}".replace("lockstep::kernels::", "").replace("(anonymous namespace)::", "")
            percent = ([0] + [one for expression, one in args.allow if expression.search(title)])[-1]
            for loop in loops_of(code):
                if not any(HOT.match(code[i][1]) for i in loop):
                    continue
                lines = spills(code, loop)
                limit = len(loop) * percent // 100
                hot += 1
                if len(lines) > limit:
                    bad += 1
                else:
                    allowed += len(lines)
                if len(lines) > limit or args.verbose:
                    print(f"{title} +{code[loop[0]][0] - code[0][0]:#x}: {len(loop)} instructions, {len(lines)} on the stack, "
                          f"at most {limit} allowed")
                    print("".join(f"    {line}\n" for line in lines), end="")
    print(f"{len(args.objects)} object files, {hot} hot loops, {bad} with spills, {allowed} spills allowed")
    sys.exit(1 if bad or not hot else 0)


if __name__ == "__main__":
    main()
