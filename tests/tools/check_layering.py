#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the rooms keep to the table in docs/structure.md.

1. Every room's CMakeLists.txt names exactly the rooms of its row as USES.
2. Every #include "room/..." in src/room goes to the room itself, to base or to a room of its row. Tests and benchmarks
   (_test, _bench) may also use the rooms named as TEST_USES.
3. The table has no cycle and every folder of src/ is a row.
Usage: check_layering.py [ROOT]. Prints each violation; exit status 1 if there is any.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2])


def read_table():
    rows = {}
    for line in (ROOT / "docs/structure.md").read_text().splitlines():
        match = re.match(r"\| `(\w+)/` \|[^|]*\|([^|]*)\|", line)
        if match:
            rows[match[1]] = set(re.findall(r"`(\w+)`", match[2]))
    return rows


def cmake_list(text, keyword):
    """The words after `keyword` in lockstep_room(...), up to the next keyword."""
    match = re.search(r"lockstep_room\((.*?)\)", text, re.S)
    if not match:
        return None
    words = re.sub(r"#.*", "", match[1]).split()
    found, taking = [], False
    for word in words[1:]:
        if word.isupper() or re.fullmatch(r"[A-Z_]+", word):
            taking = word == keyword
        elif taking:
            found.append(word)
    return found


def cycles(rows):
    done, path = set(), []

    def visit(room):
        if room in path:
            return [" -> ".join(path[path.index(room):] + [room])]
        if room in done:
            return []
        path.append(room)
        out = [c for used in sorted(rows.get(room, ())) for c in visit(used)]
        path.pop()
        done.add(room)
        return out

    return [c for room in sorted(rows) for c in visit(room)]


def main():
    rows, problems = read_table(), []
    if len(rows) < 10:
        problems.append("docs/structure.md: the table of rooms was not found")
    problems += [f"docs/structure.md: cycle {c}" for c in cycles(rows)]
    for folder in sorted(p for p in (ROOT / "src").iterdir() if p.is_dir()):
        room = folder.name
        if room not in rows:
            problems.append(f"src/{room}: not in the table of docs/structure.md")
            continue
        cmake = folder / "CMakeLists.txt"
        text = cmake.read_text() if cmake.exists() else ""
        uses = cmake_list(text, "USES")
        if uses is None:
            problems.append(f"src/{room}/CMakeLists.txt: no lockstep_room(...)")
            continue
        if set(uses) != rows[room]:
            problems.append(f"src/{room}/CMakeLists.txt: USES {sorted(uses)}, the table says {sorted(rows[room])}")
        test_uses = set(cmake_list(text, "TEST_USES"))
        for source in sorted(folder.rglob("*")):
            if source.suffix not in (".h", ".cpp"):
                continue
            allowed = rows[room] | {room, "base"}
            if re.search(r"_(test|bench)\b|_test_|testing", source.stem):
                allowed = allowed | test_uses
            for number, line in enumerate(source.read_text().splitlines(), 1):
                match = re.match(r'\s*#include "(\w+)/', line)
                if match and match[1] in rows and match[1] not in allowed:
                    problems.append(f"{source.relative_to(ROOT)}:{number}: {room} may not include {match[1]}/")
    print("\n".join(problems) if problems else f"layering: {len(rows)} rooms keep to the table")
    return 1 if problems else 0


sys.exit(main())
