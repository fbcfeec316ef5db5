#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a numerics mode costs in quality: the mean difference of the negative log-likelihood of text to --weights f32.

Every token of the texts is scored once, in windows, by `lockstep score`; the difference is taken token by token, so its
standard error is that of the difference. docs/numerics.md holds the figures and the gates.

  tests/tools/quality.py --model models/SmolLM2-135M-Instruct.Q4_1.gguf native w8a16 w8a8
  tests/tools/quality.py --model DIR --gate 0.005 f32,kv=int8

A mode is what --weights (native, bf16, bf16dot, f32) or --quantization (w8a16, w8a8, w4a8) takes; ",kv=TYPE" adds
--kv-cache-dtype. With --gate the exit status is 1 if a mode's mean difference is above it.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--binary", default=str(ROOT / "build" / "lockstep"))
    parser.add_argument("--tokens", type=int, default=16384, help="tokens to score, at least")
    parser.add_argument("--window", type=int, default=2400, help="characters of a window")
    parser.add_argument("--random-ids", type=int, default=0, metavar="VOCAB", help="random ids below VOCAB, no text")
    parser.add_argument("--text", nargs="*", type=pathlib.Path, help="default: README.md, docs/ and headers of src/")
    parser.add_argument("--gate", type=float, help="largest mean difference")
    parser.add_argument("modes", nargs="+")
    return parser.parse_args()


def flags_of(mode):
    base, *rest = mode.split(",")
    flags = ["--weights" if base in ("native", "bf16", "f32", "bf16dot") else "--quantization", base]
    for part in rest:
        key, _, value = part.partition("=")
        if key != "kv" or not value:
            sys.exit(f"quality.py: unknown part {part!r} of mode {mode!r}, expected kv=TYPE")
        flags += ["--kv-cache-dtype", value]
    return flags


def windows_of(texts, size):
    for path in texts:
        text = path.read_text(encoding="utf-8")
        for start in range(0, len(text), size):
            if len(text) - start >= size // 4:
                yield text[start : start + size]


def prompts(arguments, directory):
    """Flags of the windows."""
    if arguments.random_ids:
        state, flags = 12345, []
        for _ in range(-(-arguments.tokens // 255)):
            ids = []
            for _ in range(256):
                state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
                ids.append((state >> 33) % arguments.random_ids)
            flags += ["--prompt-ids", ",".join(map(str, ids))]
        return flags
    texts = arguments.text
    if not texts:
        texts = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "src").rglob("*.h"))]
    flags, characters = [], 0
    for i, window in enumerate(windows_of(texts, arguments.window)):
        if characters > 4 * arguments.tokens:  # English has four characters a token, code and tables fewer
            break
        path = directory / f"{i}.txt"
        path.write_text(window, encoding="utf-8")
        flags += ["--prompt-file", str(path)]
        characters += len(window)
    return flags


def score(arguments, mode, window_flags):
    command = [arguments.binary, "--log-level", "error", "score", "--model", arguments.model, "--output", "json",
               *flags_of(mode), *window_flags]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"quality.py: {mode}: lockstep score ended with status {done.returncode}")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [-x for line in lines[:-1] for x in line["logprobs"][1:]]


def mean_and_error(values):
    mean = math.fsum(values) / len(values)
    variance = math.fsum((x - mean) ** 2 for x in values) / (len(values) - 1)
    return mean, math.sqrt(variance / len(values))


def main():
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as directory:
        window_flags = prompts(arguments, pathlib.Path(directory))
        reference = score(arguments, "f32", window_flags)
        if len(reference) < arguments.tokens:
            sys.exit(f"quality.py: the texts have {len(reference)} tokens, expected at least {arguments.tokens}")
        print(f"{'mode':<14} {'tokens':>7} {'nll':>9} {'difference':>11} {'std error':>10}")
        print(f"{'f32':<14} {len(reference):>7} {mean_and_error(reference)[0]:>9.5f}")
        worst = -math.inf
        for mode in arguments.modes:
            values = score(arguments, mode, window_flags)
            mean, error = mean_and_error([a - b for a, b in zip(values, reference, strict=True)])
            worst = max(worst, mean)
            print(f"{mode:<14} {len(values):>7} {mean_and_error(values)[0]:>9.5f} {mean:>11.5f} {error:>10.5f}", flush=True)
    if arguments.gate is not None and worst > arguments.gate:
        sys.exit(f"quality.py: a mean difference of {worst:.5f} is above the gate of {arguments.gate}")


if __name__ == "__main__":
    main()
