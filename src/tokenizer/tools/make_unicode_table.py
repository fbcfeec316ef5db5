# SPDX-License-Identifier: Apache-2.0
"""Writes ../unicode_table.inc: what Hugging Face's tokenizers takes each code point for.

The categories are asked from the library's own regex engine (Oniguruma, Unicode 16 in tokenizers 0.23), the
normalisation exceptions from its NFC, so that neither depends on what Python or Debian ship.
Needs the PyPI packages tokenizers and unicodedata2.  usage: make_unicode_table.py > ../unicode_table.inc
"""
import unicodedata  # Python 3.11: Unicode 14, as PCRE2 10.42

import unicodedata2
from tokenizers import Regex, normalizers, pre_tokenizers

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn".split()
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
TEXT = "".join(map(chr, CODE_POINTS))


def members(regex):
    """Code points that the library's regex matches."""
    pieces = pre_tokenizers.Split(Regex(regex), "removed").pre_tokenize_str(TEXT)
    return set(CODE_POINTS) - {ord(ch) for piece, _ in pieces for ch in piece}


def inert():
    """Code points that Unicode reorders or composes but the library's (older) NFC leaves alone."""
    nfc = normalizers.NFC().normalize_str
    found = set()
    for c in CODE_POINTS:
        if unicodedata2.combining(chr(c)):
            for other in (0x334, 0x301, 0x345):
                for s in (f"a{chr(other)}{chr(c)}", f"a{chr(c)}{chr(other)}"):
                    if nfc(s) != unicodedata2.normalize("NFC", s):
                        found.add(c)
        parts = unicodedata2.decomposition(chr(c)).split()
        if len(parts) == 2 and parts[0][0] != "<":
            s = "".join(chr(int(p, 16)) for p in parts)
            if nfc(s) != unicodedata2.normalize("NFC", s):
                found.update((c, int(parts[0], 16)))  # the base is new, the mark may be an old one
    return found


def runs(values):
    start = 0
    for c in range(1, 0x110001):
        if c == 0x110000 or values[c] != values[start]:
            yield start, values[start]
            start = c


def write_rows(name, type_name, items):
    print(f"inline constexpr {type_name} {name}[] = {{")
    line = "   "
    for item in items:
        if len(line) + len(item) > 118:
            print(line)
            line = "   "
        line += f" {item},"
    print(line + "\n};")


category = ["Cn"] * 0x110000
for c in range(0xD800, 0xE000):
    category[c] = "Cs"
for name in CATEGORIES:
    for c in members(rf"\p{{{name}}}"):
        category[c] = name
spaces = members(r"\s")
assert all((category[c][0] == "Z" or category[c] == "Cc") == (c in spaces) or category[c] == "Cc" for c in CODE_POINTS)
newer = [not 0xD800 <= c <= 0xDFFF and unicodedata.category(chr(c)) != category[c] for c in range(0x110000)]
labels = ["CcSpace" if category[c] == "Cc" and c in spaces else category[c] for c in range(0x110000)]

print("// SPDX-License-Identifier: Apache-2.0")
print("// Made by tools/make_unicode_table.py; not edited by hand. Facts from the Unicode character database 16.")
write_rows("kCategoryRuns", "CategoryRun",
           [f"{{0x{start:X}, kC{label}, {int(new)}}}" for start, (label, new) in runs(list(zip(labels, newer)))])
gone = inert()
write_rows("kInertRuns", "InertRun", [f"{{0x{start:X}, {int(v)}}}" for start, v in runs([c in gone for c in range(0x110000)])])
