#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every fuzz target of BUILD for a time, two side by side, and prints what each did. Standard library only.

    python3 tests/tools/run_fuzz.py BUILD [--seconds N] [--runs N] [--jobs N] [--target NAME]...

Seeds are made new; what a run finds new stays in BUILD/corpus/NAME and is the start of the next. Exit status 1 and the
path of the input where a target crashed, leaked, ran into the time-out of 5 s or the memory limit of 1024 MB.
"""
import argparse
import concurrent.futures
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
MAX_LEN = {"config": 8192, "gguf": 65536, "jinja": 4096, "safetensors": 8192, "tokenizer": 8192}


def last(pattern, text):
    found = re.findall(pattern, text)
    return found[-1] if found else "?"


def run(build, name, seconds, runs):
    corpus, crashes = build / "corpus" / name, build / "crashes" / name
    for folder in (corpus, crashes):
        folder.mkdir(parents=True, exist_ok=True)
    limit = [f"-runs={runs}"] if runs else [f"-max_total_time={seconds}"]
    start = time.monotonic()
    done = subprocess.run(
        [str(build / f"fuzz_{name}"), *limit, "-timeout=5", "-rss_limit_mb=1024", f"-max_len={MAX_LEN[name]}",
         f"-dict={HERE.parent / 'fuzz' / f'{name}.dict'}", f"-artifact_prefix={crashes}/", "-print_final_stats=1",
         str(corpus), str(build / "seeds" / name)], capture_output=True, text=True, errors="replace")
    wall = time.monotonic() - start
    executions = last(r"stat::number_of_executed_units:\s+(\d+)", done.stderr)
    coverage, units = last(r"cov: (\d+)", done.stderr), last(r"corp: (\d+)", done.stderr)
    peak = last(r"stat::peak_rss_mb:\s+(\d+)", done.stderr)
    verdict = "ok" if done.returncode == 0 else "FAILED"
    print(f"{name:12} {executions:>10} executions in {wall:5.0f} s, coverage {coverage:>6}, corpus {units:>5}, peak {peak:>4} MB: "
          f"{verdict}", flush=True)
    if done.returncode != 0:
        print(done.stderr[-6000:], file=sys.stderr)
    return done.returncode == 0, int(executions) if executions.isdigit() else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--runs", type=int, default=0, help="executions of each target instead of a time")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--target", action="append", choices=sorted(MAX_LEN))
    args = parser.parse_args()
    subprocess.run([sys.executable, HERE / "make_fuzz_seeds.py", args.build / "seeds"], check=True)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        results = list(pool.map(lambda name: run(args.build, name, args.seconds, args.runs), args.target or sorted(MAX_LEN)))
    print(f"{sum(count for _, count in results)} executions in all")
    return 0 if all(ok for ok, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
