#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long prompts disturb streams: serves a model, keeps N streams going, first alone and then beside long prompts, and
prints the time between a stream's tokens in both, with the ratio that the scheduler promises to keep within 3: 99th
percentile beside prompts over the median alone. Standard library only.

    python3 tests/tools/prefill_stall.py --model PATH [--streams 8] [--seconds 20] [--prompt 2000] [-- SERVE FLAGS]
"""
import argparse
import json
import pathlib
import random
import statistics
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/http"))
from serving import SERVED_NAME, Server  # noqa: E402


class Streams:
    """N streams that begin again when they end, so that contexts are alike in both phases; `gaps` collects
    the times between their tokens while a phase is on."""

    def __init__(self, server, count, max_tokens):
        self.server, self.max_tokens = server, max_tokens
        self.gaps, self.over, self.lock = None, False, threading.Lock()
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self, seed):
        rng = random.Random(seed)
        while not self.over:
            body = {"model": SERVED_NAME, "prompt": [rng.randrange(1000, 9000) for _ in range(32)], "temperature": 0,
                    "max_tokens": self.max_tokens, "ignore_eos": True, "stream": True}
            connection = self.server.connect()
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            assert response.status == 200, response.read()
            last = None
            for line in response:
                if not line.startswith(b"data: {"):
                    continue
                now = time.perf_counter()
                gaps = self.gaps
                if last is not None and gaps is not None:
                    gaps.append(now - last)
                last = now
                if self.over:
                    break
            connection.close()

    def stop(self):
        self.over = True
        for thread in self.threads:
            thread.join()


def phase(streams, seconds, beside=None):
    """Gaps of one phase, in ms, sorted; `beside(seconds)` runs meanwhile."""
    streams.gaps = gaps = []
    begin = time.perf_counter()
    if beside:
        beside(begin + seconds)
    time.sleep(max(0.0, begin + seconds - time.perf_counter()))
    streams.gaps = None
    return sorted(1000 * gap for gap in gaps)


def send_prompts(server, length, until):
    """Prompts of `length` tokens one after another, answered with one token; the number of tokens and the seconds."""
    rng, begin, tokens = random.Random(99), time.perf_counter(), 0
    while time.perf_counter() < until:
        body = {"model": SERVED_NAME, "prompt": [rng.randrange(1000, 9000) for _ in range(length)], "max_tokens": 1}
        reply = server.post("/v1/completions", body, timeout=600)
        assert reply.status == 200, reply.body
        tokens += length
    return tokens, time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--binary", default=ROOT / "build/lockstep")
    parser.add_argument("--streams", type=int, nargs="+", default=[8])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--prompt", type=int, default=2000)
    parser.add_argument("--max-tokens", type=int, default=300)
    parser.add_argument("flags", nargs="*", help="for serve, after --")
    args = parser.parse_args()
    print(f"{'streams':>7} {'alone p50':>10} {'p99':>8} {'beside p50':>11} {'p99':>8} {'p99 / alone p50':>16} {'prompt tok/s':>13}")
    for count in args.streams:
        with tempfile.TemporaryDirectory() as folder:
            server = Server([args.binary, "serve", "--model", args.model, "--port", "0", "--served-model-name", SERVED_NAME,
                             "--no-enable-prefix-caching", *args.flags], pathlib.Path(folder) / "log")
            try:
                streams = Streams(server, count, args.max_tokens)
                time.sleep(2)
                alone = phase(streams, args.seconds)
                sent = []
                beside = phase(streams, args.seconds, lambda until: sent.append(send_prompts(server, args.prompt, until)))
                streams.stop()
            finally:
                server.kill()
        (tokens, seconds), = sent
        at = lambda gaps, share: gaps[min(len(gaps) - 1, int(len(gaps) * share))]  # noqa: E731
        median = statistics.median(alone)
        print(f"{count:7} {median:10.2f} {at(alone, .99):8.2f} {statistics.median(beside):11.2f} {at(beside, .99):8.2f} "
              f"{at(beside, .99) / median:16.2f} {tokens / seconds:13.0f}", flush=True)


if __name__ == "__main__":
    main()
