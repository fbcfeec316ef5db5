#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lockstep beside another server on the same GGUF file: runs in turn, prints medians and ratios (`./dev compare`).

    compare_speed.py --model FILE.gguf --llama-bench PATH      llama.cpp's llama-bench; several rows at once by the
                                                               llama-batched-bench that lies beside it, if there is one
    compare_speed.py --model FILE.gguf --url http://HOST:PORT  any server with /v1/completions that has the model loaded; Lockstep
                                                               is started on a free port and asked by the same client

A machine that does anything else gives no fair ratio: spinning threads lose more than sleeping ones. The load before the runs
is printed.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]


def output_of(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def tests_of(args):
    """(name as in `lockstep bench`, rows, prompt tokens or context)"""
    return [("prefill", 1, args.prompt_tokens)] + [("decode", rows, args.context) for rows in args.rows]


def name_of(test):
    kind, rows, tokens = test
    return f"prefill:{tokens}" if kind == "prefill" else f"decode:{rows}@{tokens}"


def lockstep_bench(args):
    report = json.loads(output_of([args.lockstep, "--log-level", "error", "bench", "--model", args.model, "--threads", args.threads,
                                   "--tests", ",".join(name_of(test) for test in tests_of(args)), "--steps", args.steps,
                                   "--repeats", 1, "--output", "json", *args.lockstep_flags.split()]))
    return [result["tok_per_s"] for result in report["results"]]


def llama_bench(args):
    batched = args.llama_bench.with_name(args.llama_bench.name.replace("llama-bench", "llama-batched-bench"))
    rates = []
    for kind, rows, tokens in tests_of(args):
        if rows == 1:
            work = ["-p", tokens, "-n", 0] if kind == "prefill" else ["-p", 0, "-n", args.steps, "-d", tokens]
            rows_out = json.loads(output_of([args.llama_bench, "-m", args.model, "-t", args.threads, "-r", 1, "-o", "json", *work]))
            rates.append(rows_out[-1]["avg_ts"])
        elif batched.exists():
            lines = output_of([batched, "-m", args.model, "-t", args.threads, "-tb", args.threads, "-c", rows * (tokens + args.steps + 8),
                               "-npp", tokens, "-ntg", args.steps, "-npl", rows, "--output-format", "jsonl"])
            rates.append(json.loads(lines.strip().splitlines()[-1])["speed_tg"])
        else:
            rates.append(float("nan"))
    return rates


def stream(url, body):
    """Asks for a streamed completion: (times of the answer's pieces, prompt tokens, completion tokens)."""
    body = body | {"stream": True, "stream_options": {"include_usage": True}}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    times, usage = [], {}
    with urllib.request.urlopen(request, timeout=3600) as answer:
        for line in answer:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if "error" in event:
                sys.exit(f"{url}: {event['error']}")
            usage = event.get("usage") or usage
            if event.get("choices") and event["choices"][0].get("text"):
                times.append(time.monotonic())
    return times, usage["prompt_tokens"], usage["completion_tokens"]


def prompt_of(tokens, salt):
    """Text of about as many tokens, different for each salt from its first word on."""
    words = ["north", "south", "east", "west", "river", "stone", "cloud", "field"]
    return f"{salt}: " + " ".join(words[(i * 7 + i // 8 + salt) % len(words)] for i in range(tokens - 3))


def decode_rate(rows):
    """Tokens a second of all rows while all of them decode: between the last row's first piece and the first row's last."""
    begin, end = max(times[0] for times, _, _ in rows), min(times[-1] for times, _, _ in rows)
    if begin >= end:
        sys.exit("the rows did not decode together: raise --steps, or the server runs fewer requests at once")
    tokens = sum(sum(begin < t <= end for t in times) * completion / len(times) for times, _, completion in rows)
    return tokens / (end - begin)


def served_rates(args, url, model, round_number):
    """What the client sees: prompt tokens a second until the first piece, tokens a second of all rows together."""
    rates = []
    for number, (kind, rows, tokens) in enumerate(tests_of(args)):
        steps = 1 if kind == "prefill" else args.steps + rows
        body = {"max_tokens": steps, "temperature": 0, "ignore_eos": True} | ({"model": model} if model else {})
        prompts = [prompt_of(tokens, 1000 * round_number + 100 * number + row) for row in range(rows)]
        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(rows) as pool:
            answers = list(pool.map(lambda prompt, body=body: stream(url, body | {"prompt": prompt}), prompts))
        times, prompt_tokens, _ = answers[0]
        rates.append(prompt_tokens / (times[0] - start) if kind == "prefill" else decode_rate(answers))
    return rates


def start_lockstep(args):
    port = 8100 + os.getpid() % 800
    command = [args.lockstep, "--log-level", "error", "serve", "--model", args.model, "--threads", args.threads, "--port", port,
               *args.lockstep_flags.split()]
    server = subprocess.Popen([str(part) for part in command], stdout=sys.stderr)
    url = f"http://127.0.0.1:{port}"
    for _ in range(600):
        if server.poll() is not None:
            sys.exit(f"lockstep serve ended with status {server.returncode}")
        try:
            urllib.request.urlopen(url + "/health", timeout=1).read()
            return server, url
        except OSError:
            time.sleep(0.2)
    server.terminate()
    sys.exit("lockstep serve was not ready after 120 s")


def model_at(url):
    with urllib.request.urlopen(url + "/v1/models", timeout=10) as answer:
        return json.load(answer)["data"][0]["id"]


def main():
    parser = argparse.ArgumentParser(prog="compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    other = parser.add_mutually_exclusive_group(required=True)
    other.add_argument("--llama-bench", type=pathlib.Path)
    other.add_argument("--url")
    parser.add_argument("--model", type=pathlib.Path, required=True, help="a GGUF file")
    parser.add_argument("--lockstep", type=pathlib.Path, default=ROOT / "build" / "lockstep")
    parser.add_argument("--lockstep-flags", default="", help="more flags for it, in one string")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--prompt-tokens", type=int, default=512, help="of the prefill test")
    parser.add_argument("--context", type=int, default=128, help="of the decode tests")
    parser.add_argument("--rows", type=lambda text: [int(part) for part in text.split(",")], default=[1, 16])
    parser.add_argument("--steps", type=int, default=32, help="tokens that each row decodes")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each, in turn; medians are printed")
    parser.add_argument("--output", choices=["text", "json"], default="text")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"load before the runs: {load:.2f}", file=sys.stderr)
    ours, theirs = [], []
    server = None
    if args.url:
        args.url = args.url.rstrip("/")
        server, url = start_lockstep(args)
    try:
        for number in range(args.rounds):
            ours.append(served_rates(args, url, "", number) if args.url else lockstep_bench(args))
            theirs.append(served_rates(args, args.url, model_at(args.url), number) if args.url else llama_bench(args))
    finally:
        if server:
            server.terminate()
            server.wait()
    results = []
    for number, test in enumerate(tests_of(args)):
        pairs = [(a[number], b[number]) for a, b in zip(ours, theirs)]
        results.append({"test": name_of(test), "lockstep_tok_per_s": statistics.median(a for a, _ in pairs),
                        "other_tok_per_s": statistics.median(b for _, b in pairs),
                        "ratio": statistics.median(a / b for a, b in pairs), "rounds": args.rounds})
    if args.output == "json":
        print(json.dumps({"model": args.model.name, "other": str(args.llama_bench or args.url), "threads": args.threads,
                          "load_before": load, "results": results}))
        return
    print(f"{args.model.name}, {args.threads} threads, medians of {args.rounds} runs in turn")
    for one in results:
        print(f"{one['test']:<16} Lockstep {one['lockstep_tok_per_s']:9.1f} tok/s   other {one['other_tok_per_s']:9.1f} tok/s   "
              f"ratio {one['ratio']:.2f}")


if __name__ == "__main__":
    main()
