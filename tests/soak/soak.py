# SPDX-License-Identifier: Apache-2.0
"""A served model under clients that behave badly: every answer is that of the request alone, nothing is lost or leaks.

`soak.py --model PATH [--minutes N] [--clients 64] [--seed S]`. Prints a table; leaves with 1 if anything is wrong.
Memory growth is judged from two minutes on (its plateau is taken after 60 s).
"""
import argparse
import json
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/http"))

import client as soak_client  # noqa: E402
from serving import SERVED_NAME, Server  # noqa: E402

PLATEAU_S = 60
MAX_GROWTH = 0.01
SENTENCES = ["The harbour was quiet when the first boats came in.", "Numbers are only as good as the way they were taken.",
             "She wrote the answer down and checked it twice.", "A long road leads from the valley to the pass."]


def make_fields(count, rng):
    """Requests whose prompts share beginnings; greedy and seeded draws."""
    out = []
    for i in range(count):
        words = SENTENCES[i % 4] * (1 + i % 5) + " " + " ".join(rng.choice(["red", "seven", "stone", "tide", "late"]) for _ in range(i))
        fields = {"model": SERVED_NAME, "prompt": words, "max_tokens": rng.choice([4, 16, 40, 80]), "logprobs": 1, "temperature": 0}
        if i % 3 == 2:
            fields.update(temperature=0.8, top_p=0.95, seed=i)
        out.append(fields)
    return out


def resident_bytes(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the server has ended")


class Soak:
    def __init__(self, server, cases, seconds, clients, seed):
        self.server, self.cases, self.end = server, cases, time.monotonic() + seconds
        self.address = (server.host, server.port)
        self.seconds, self.num_clients, self.rng = seconds, clients, random.Random(seed)
        self.wrong, self.lock = [], threading.Lock()
        self.resident = []  # (seconds since start, bytes)
        self.killed = self.stopped = 0

    def fail(self, what):
        with self.lock:
            self.wrong.append(str(what))

    def run_client(self, client):
        while time.monotonic() < self.end and len(self.wrong) < 20:
            try:
                client.act()
            except (soak_client.Wrong, OSError, ValueError, KeyError, IndexError) as error:
                self.fail(f"{type(error).__name__}: {error}")

    def spawn(self, *arguments):
        return subprocess.Popen([sys.executable, str(ROOT / "tests/soak/client.py"), *map(str, arguments)], stdout=subprocess.PIPE, text=True)

    def disturb_processes(self, expected):
        """Clients that are stopped and continued, and some that are killed and replaced."""
        processes = []
        while time.monotonic() < self.end:
            while len(processes) < 6:
                processes.append(self.spawn(*self.address, expected, self.rng.randrange(1 << 30)))
            process = self.rng.choice(processes)
            if process.poll() is not None:
                self.fail(process.stdout.read())
                processes.remove(process)
                continue
            if self.rng.random() < 0.3:
                process.kill()
                process.wait()
                processes.remove(process)
                self.killed += 1
            else:
                process.send_signal(signal.SIGSTOP)
                time.sleep(self.rng.uniform(0.05, 1.0))
                process.send_signal(signal.SIGCONT)
                self.stopped += 1
            time.sleep(self.rng.uniform(0, 0.5))
        for process in processes:
            if process.poll() is not None:
                self.fail(process.stdout.read())
            process.kill()
            process.wait()

    def watch_memory(self):
        begin = time.monotonic()
        while time.monotonic() < self.end:
            self.resident.append((time.monotonic() - begin, resident_bytes(self.server.process.pid)))
            time.sleep(0.5)

    def run(self, expected):
        clients = [soak_client.Client(self.address, self.cases, self.rng.randrange(1 << 30)) for _ in range(self.num_clients)]
        threads = [threading.Thread(target=self.run_client, args=(one,)) for one in clients]
        threads += [threading.Thread(target=self.watch_memory), threading.Thread(target=self.disturb_processes, args=(expected,))]
        health = self.spawn("--health", *self.address)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if health.poll() is not None:
            self.fail("GET /health was not answered with 200")
        health.kill()
        latencies = [float(line) for line in health.stdout.read().splitlines()]
        return clients, latencies

    def growth(self):
        """Resident memory at the end over that of the plateau, less 1; None for short runs."""
        if self.seconds < 2 * PLATEAU_S:
            return None
        plateau = statistics.median(b for t, b in self.resident if PLATEAU_S <= t < PLATEAU_S + 15)
        return statistics.median(b for t, b in self.resident[-20:]) / plateau - 1


def blocks_home(server, seconds=20):
    """True once nothing runs or waits and no block is in use."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if all(server.metric(name) == 0 for name in ("vllm:num_requests_running", "vllm:num_requests_waiting", "lockstep:kv_blocks_used")):
            return True
        time.sleep(0.1)
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--health-ms", type=float, default=50, help="the most that the 99th percentile of GET /health may take")
    parser.add_argument("--binary", default=str(ROOT / "build/lockstep"))
    options = parser.parse_args()
    print(f"seed {options.seed}, {options.clients} clients, {options.minutes:g} minutes", flush=True)

    with tempfile.TemporaryDirectory() as work:
        # A small pool, so that requests are preempted too.
        server = Server([options.binary, "serve", "--model", options.model, "--port", "0", "--served-model-name", SERVED_NAME,
                         "--max-model-len", "512", "--num-kv-blocks", "32"], pathlib.Path(work) / "server.log")
        try:
            cases = []
            for fields in make_fields(14, random.Random(options.seed)):
                cases.append({"fields": fields, "answer": soak_client.ask((server.host, server.port), fields, True)})
            expected = pathlib.Path(work) / "expected.json"
            expected.write_text(json.dumps(cases))
            soak = Soak(server, cases, options.minutes * 60, options.clients, options.seed)
            clients, latencies = soak.run(expected)
            home = blocks_home(server)
            preemptions = server.metric("vllm:num_preemptions_total")
            server.terminate()
            code = server.process.wait(timeout=60)
            log = server.log_text()
        finally:
            server.kill()

    counts = {}
    for one in clients:
        for kind, count in one.counts.items():
            counts[kind] = counts.get(kind, 0) + count
    p99 = statistics.quantiles(latencies, n=100)[98] if len(latencies) > 1 else float("inf")
    growth = soak.growth()
    log_errors = [line for line in log.splitlines() if "[error]" in line or "[critical]" in line]
    checks = [
        ("no wrong answer", not soak.wrong, f"{len(soak.wrong)} wrong of {sum(counts.values())} acts: " + ", ".join(f"{v} {k}" for k, v in sorted(counts.items()))),
        ("clients stopped, killed", soak.stopped > 0 and soak.killed > 0, f"{soak.stopped} stopped and continued, {soak.killed} killed"),
        ("blocks home", home, f"{preemptions:.0f} preemptions"),
        ("/health p99", p99 <= options.health_ms, f"{p99:.1f} ms of {len(latencies)} (limit {options.health_ms:g})"),
        ("memory growth", growth is None or growth < MAX_GROWTH, "not judged: under two minutes" if growth is None else f"{100 * growth:.2f} % after the plateau"),
        ("log", not log_errors, f"{len(log_errors)} errors"),
        ("SIGTERM", code == 0, f"exit status {code}"),
    ]
    for name, good, detail in checks:
        print(f"{name:<24} {'ok' if good else 'FAILED':<7} {detail}")
    for line in soak.wrong[:5] + log_errors[:5]:
        print("  " + line[:500])
    sys.exit(0 if all(good for _, good, _ in checks) else 1)


if __name__ == "__main__":
    main()
