# SPDX-License-Identifier: Apache-2.0
"""A mixed load on any server with the completions API: requests arrive as a Poisson process, prompts of 32 to 2048
tokens, half of them behind one shared prefix of 512 tokens, outputs of 16 to 256 tokens, greedy.

`mixed_load.py URL [URL ...] [--requests 60] [--rate 0.5] [--seed 1]`: the same load on each server in turn. Prints
generated tokens a second, and the time to the first token and between tokens (50th and 99th percentile). Prompts are
text: lengths are in words that are about a token each; the tokens that the server counts are printed too.
`--write-trace FILE` writes the load for PyPI's aiperf instead (mooncake_trace, docs/performance.md).
"""
import argparse
import http.client
import json
import math
import random
import statistics
import threading
import time
import urllib.parse

WORDS = ("the of and to in is that it was for on are as with his they at be this from have or by one had not but what all "
         "were when we there can an your which their said if do will each about how up out them then she many some so").split()


def text(rng, words):
    return " ".join(rng.choice(WORDS) for _ in range(words))


def log_uniform(rng, low, high):
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))


def make_load(count, rate, seed):
    """[(seconds after the start, prompt, max_tokens)]"""
    rng = random.Random(seed)
    shared = text(rng, 512)
    at, load = 0.0, []
    for i in range(count):
        words = log_uniform(rng, 32, 2048)
        prompt = shared + " " + text(rng, max(32, words - 512)) if i % 2 == 0 else text(rng, words)
        load.append((at, prompt, log_uniform(rng, 16, 256)))
        at += rng.expovariate(rate)
    return load


class Result:
    def __init__(self):
        self.first = self.last = None
        self.gaps, self.tokens, self.prompt_tokens, self.cached, self.error = [], 0, 0, 0, None


def run_request(url, prompt, max_tokens, result):
    body = json.dumps({"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, "stream": True,
                       "stream_options": {"include_usage": True}})
    begin = time.monotonic()
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=600)
    try:
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise RuntimeError(f"status {response.status}: {response.read()[:200]!r}")
        before = None
        for line in response:
            if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                continue
            now = time.monotonic()
            event = json.loads(line[6:])
            if event.get("usage"):
                result.tokens = event["usage"]["completion_tokens"]
                result.prompt_tokens = event["usage"]["prompt_tokens"]
                result.cached = (event["usage"].get("prompt_tokens_details") or {}).get("cached_tokens", 0)
            if event.get("choices") and event["choices"][0].get("text"):
                if result.first is None:
                    result.first = now - begin
                else:
                    result.gaps.append(now - before)
                before = result.last = now
    except (OSError, RuntimeError, ValueError) as error:
        result.error = str(error)
    finally:
        connection.close()


def percentile(values, percent):
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1] if len(values) > 1 else float("nan")


def run_load(url, load):
    results = [Result() for _ in load]
    begin = time.monotonic()
    threads = []
    for (at, prompt, max_tokens), result in zip(load, results):
        time.sleep(max(0, begin + at - time.monotonic()))
        threads.append(threading.Thread(target=run_request, args=(url, prompt, max_tokens, result)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    wall = time.monotonic() - begin
    errors = [one.error for one in results if one.error]
    first = [one.first for one in results if one.first is not None]
    gaps = [gap for one in results for gap in one.gaps]
    return {"url": url.geturl(), "requests": len(load), "errors": len(errors), "error": errors[0] if errors else None, "wall_s": wall,
            "prompt_tokens": sum(one.prompt_tokens for one in results), "cached_tokens": sum(one.cached for one in results),
            "output_tokens": sum(one.tokens for one in results), "tok_per_s": sum(one.tokens for one in results) / wall,
            "ttft_p50_ms": 1e3 * percentile(first, 50), "ttft_p99_ms": 1e3 * percentile(first, 99),
            "itl_p50_ms": 1e3 * percentile(gaps, 50), "itl_p99_ms": 1e3 * percentile(gaps, 99)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("urls", nargs="*", metavar="URL")
    parser.add_argument("--requests", type=int, default=60)
    parser.add_argument("--rate", type=float, default=0.5, help="mean arrivals a second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="one JSON object a server")
    parser.add_argument("--write-trace", metavar="FILE")
    options = parser.parse_args()
    if not options.urls and not options.write_trace:
        parser.error("a URL or --write-trace is needed")
    load = make_load(options.requests, options.rate, options.seed)
    if options.write_trace:
        with open(options.write_trace, "w", encoding="utf-8") as file:
            for at, prompt, max_tokens in load:
                file.write(json.dumps({"timestamp": round(at * 1e3), "text_input": prompt, "output_length": max_tokens}) + "\n")
    for url in options.urls:
        figures = run_load(urllib.parse.urlsplit(url), load)
        if options.json:
            print(json.dumps(figures), flush=True)
            continue
        print("{url}: {requests} requests, {errors} errors, {wall_s:.1f} s; {prompt_tokens} prompt tokens ({cached_tokens} cached), "
              "{output_tokens} generated, {tok_per_s:.1f} tok/s; first token p50 {ttft_p50_ms:.0f} p99 {ttft_p99_ms:.0f} ms; "
              "between tokens p50 {itl_p50_ms:.1f} p99 {itl_p99_ms:.1f} ms".format(**figures), flush=True)
        if figures["error"]:
            print("  first error: " + figures["error"], flush=True)


if __name__ == "__main__":
    main()
