#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How speed scales with prompt length, rows, context and threads: measures, or reads a measurement; makes table and plot.

    scaling.py --model PATH [--json FILE]     runs `lockstep bench` and writes its figures to FILE (build/scaling.json)
    scaling.py --from-json FILE               no measuring
Both write the table between the markers of docs/performance.md, and docs/scaling.svg (matplotlib). `./dev scaling` does it all.

Contexts are pages of random values: nothing is prefilled. Prompts and contexts that the model has no room for are left out.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PREFILL = [128, 512, 2048, 8192]
ROWS = [1, 2, 4, 8, 16, 32, 64]
CONTEXTS = [128, 1024, 3338, 16384]
BEGIN, END = "<!-- scaling: begin -->", "<!-- scaling: end -->"


def output_of(command):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}")
    return done.stdout


def tests_for(limit, steps, max_kv_tokens):
    """Within the model's context: a decode run adds its steps and a few."""
    tests = [f"prefill:{tokens}" for tokens in PREFILL if tokens < limit]
    for context in CONTEXTS:
        tests += [f"decode:{rows}@{context}" for rows in ROWS
                  if rows * context <= max_kv_tokens and context + steps + rows // 2 + 16 <= limit]
    return tests


def measure(args):
    inspected = output_of([args.lockstep, "inspect", "--model", args.model])
    limit = int(re.search(r"^context\s+(\d+) tokens", inspected, re.MULTILINE).group(1))
    tests = tests_for(limit, args.steps, args.max_kv_tokens)
    runs = []
    for threads in args.threads:
        print(f"{threads} threads: {len(tests)} tests", file=sys.stderr)
        runs.append(json.loads(output_of([args.lockstep, "--log-level", "warning", "bench", "--model", args.model, "--threads", threads,
                                          "--tests", ",".join(tests), "--steps", args.steps, "--repeats", args.repeats,
                                          "--output", "json", *args.lockstep_flags.split()])))
    name = args.name or f"{pathlib.Path(args.model).resolve().name} {args.lockstep_flags}".strip()
    return {"model": name, "load_before": args.load, "runs": runs}


def threads_of(run):
    threads = run["machine"]["threads"]
    return f"{threads} thread{'s' if threads > 1 else ''}"


def results(run, kind):
    return [result for result in run["results"] if result["test"] == kind]


def cell(run, **wanted):
    for result in run["results"]:
        if all(result[key] == value for key, value in wanted.items()):
            return f"{result['tok_per_s']:.0f} ({result['share_of_t_limit']:.2f})"
    return "-"


def table(report):
    """Markdown: tokens a second and, in brackets, the share of T_limit."""
    lines = []
    for run in report["runs"]:
        machine = run["machine"]
        ceilings = ", ".join(f"{name} {gflops:.0f}" for name, gflops in machine["matmul_ceiling_gflops"].items())
        lines += [f"{report['model']}, {machine['cpu']}, {threads_of(run)}, kernels {machine['isa']}: R = "
                  f"{machine['read_gbps']:.1f} GB/s, F = {machine['fma_f32_gflops']:.0f} GFLOP/s, matmul in cache {ceilings} GFLOP/s. "
                  f"Load of the machine before: {report['load_before']:.1f}.", ""]
        prefill = results(run, "prefill")
        lines += ["| prefill | " + " | ".join(f"{result['tokens']} tokens" for result in prefill) + " |",
                  "|---|" + "---|" * len(prefill),
                  "| tok/s (share of T_limit) | " + " | ".join(cell(run, test="prefill", tokens=result["tokens"]) for result in prefill) + " |",
                  ""]
        decode = results(run, "decode")
        rows = sorted({result["rows"] for result in decode})
        lines += ["| decode, context | " + " | ".join(f"{count} row{'s' if count > 1 else ''}" for count in rows) + " |",
                  "|---|" + "---|" * len(rows)]
        for context in sorted({result["context"] for result in decode}):
            cells = [cell(run, test="decode", rows=count, context=context) for count in rows]
            lines.append(f"| {context} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def plot(report, path):
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot
    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "lockstep", "font.size": 9})
    figure, axes = pyplot.subplots(2, 2, figsize=(10, 7), layout="constrained")
    for run, line in zip(report["runs"], ["--", "-", ":", "-."]):
        threads = threads_of(run)
        prefill = results(run, "prefill")
        for row, field in enumerate(["tok_per_s", "share_of_t_limit"]):
            axes[row][0].plot([one["tokens"] for one in prefill], [one[field] for one in prefill], line, marker="o", color="black", label=threads)
            decode = results(run, "decode")
            for number, context in enumerate(sorted({one["context"] for one in decode})):
                points = [one for one in decode if one["context"] == context]
                axes[row][1].plot([one["rows"] for one in points], [one[field] for one in points], line, marker="o", color=f"C{number}",
                                  label=f"context {context}, {threads}")
    for row, name in enumerate(["tokens a second", "share of T_limit"]):
        for column, label in enumerate(["prompt tokens", "rows"]):
            axis = axes[row][column]
            axis.set_xscale("log", base=2)
            axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axis.set(xlabel=label, ylabel=name, title=["prefill", "decode"][column] if row == 0 else None, ylim=(0, None))
            axis.grid(alpha=0.3)
            if row == 0:
                axis.legend(fontsize=7)
    machine = report["runs"][0]["machine"]
    figure.suptitle(f"{report['model']} on {machine['cpu']}, kernels {machine['isa']}")
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(prog="scaling", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--model", type=pathlib.Path)
    source.add_argument("--from-json", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "build" / "scaling.json", help="where the figures go")
    parser.add_argument("--document", type=pathlib.Path, default=ROOT / "docs" / "performance.md")
    parser.add_argument("--svg", type=pathlib.Path, default=ROOT / "docs" / "scaling.svg")
    parser.add_argument("--name", help="of the model, in table and plot")
    parser.add_argument("--lockstep", type=pathlib.Path, default=ROOT / "build" / "lockstep")
    parser.add_argument("--lockstep-flags", default="", help="more flags for it, in one string")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--threads", type=lambda text: [int(part) for part in text.split(",")], default=sorted({1, cores}))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=16, help="timed steps of a decode run")
    parser.add_argument("--max-kv-tokens", type=int, default=100_000, help="rows x context, at most")
    args = parser.parse_args()
    args.load = os.getloadavg()[0]
    if args.from_json:
        report = json.loads(args.from_json.read_text())
    else:
        report = measure(args)
        args.json.write_text(json.dumps(report))
    text = args.document.read_text()
    if BEGIN not in text or END not in text:
        sys.exit(f"{args.document}: the markers {BEGIN} and {END} are missing")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    args.document.write_text(f"{before}{BEGIN}\n{table(report)}{END}{after}")
    plot(report, args.svg)
    print(f"{args.document}, {args.svg}")


if __name__ == "__main__":
    main()
