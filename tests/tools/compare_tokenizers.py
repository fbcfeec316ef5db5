#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Encode speed of build/tokenizer_bench next to PyPI tokenizers, in interleaved rounds of one run, best of each.

    pip install tokenizers==0.23.3; python3 tests/tools/compare_tokenizers.py [BUILD] [--rounds N]

Both encode the same texts with the Qwen3 tokenizer on one thread; the numbers of tokens must agree.
"""
import argparse
import json
import os
import pathlib
import subprocess
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]


def code_text():
    """As code_text() of src/tokenizer/tokenizer_bench.cpp."""
    text = b""
    for path in sorted(p for p in (ROOT / "src").rglob("*") if p.suffix in (".cpp", ".h")):
        text += path.read_bytes()
        if len(text) > 1000000:
            break
    return text.decode()


def ours(build):
    done = subprocess.run([build / "tokenizer_bench", "--benchmark_filter=^encode", "--benchmark_format=json",
                           "--benchmark_min_time=0.3"], check=True, capture_output=True, text=True)
    return {b["name"].removeprefix("encode/"): (b["bytes_per_second"] / 1e6, int(b["tokens"]))
            for b in json.loads(done.stdout)["benchmarks"]}


def theirs(tokenizer, text):
    best = 0.0
    for _ in range(3):
        start = time.perf_counter()
        ids = tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids
        best = max(best, len(text.encode()) / 1e6 / (time.perf_counter() - start))
    return best, len(ids)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(args.build / "testdata/qwen3-tokenizer/tokenizer.json"))
    texts = {"english": (ROOT / "tests/data/golden/smollm2/passage.txt").read_text(), "code_1mb": code_text(),
             "one_run_200k": "a" * 200000, "one_run_2m": "a" * 2000000}
    best = {name: [0.0, 0.0] for name in texts}
    for _ in range(args.rounds):
        mine = ours(args.build)
        for name, text in texts.items():
            other, tokens = theirs(tokenizer, text)
            assert mine[name][1] == tokens, (name, mine[name][1], tokens)
            best[name] = [max(best[name][0], mine[name][0]), max(best[name][1], other)]
    print(f"{'text':14} {'Lockstep MB/s':>14} {'tokenizers MB/s':>16} {'ratio':>6}")
    for name, (mine, other) in best.items():
        print(f"{name:14} {mine:14.2f} {other:16.2f} {mine / other:6.1f}")


if __name__ == "__main__":
    main()
