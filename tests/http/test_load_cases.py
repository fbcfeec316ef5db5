# SPDX-License-Identifier: Apache-2.0
"""Cases 27-33 of the public reports over HTTP, and clients that stop, half-close or are killed at any time."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import time

import pytest

from conftest import BUILD
from serving import SERVED_NAME, Server, stream_text

RUNNING, USED = "vllm:num_requests_running", "lockstep:kv_blocks_used"


def eventually(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def serve(make_model, tmp_path):
    """serve(FLAG...): a server with no other limits than those."""
    with contextlib.ExitStack() as stack:
        def start(*flags, max_model_len=256):
            command = [BUILD / "lockstep", "serve", "--model", make_model(eos_token_id=[151645, 151643]), "--port", "0",
                       "--served-model-name", SERVED_NAME, "--max-model-len", str(max_model_len), *flags]
            started = Server(command, tmp_path / f"log{time.monotonic_ns()}")
            stack.callback(started.kill)
            return started

        yield start


def prompt(seed, length):
    source = random.Random(seed)
    return [source.randrange(1000, 2000) for _ in range(length)]


def complete(server, ids, max_tokens, **fields):
    reply = server.complete(ids, max_tokens=max_tokens, ignore_eos=True, temperature=0, **fields)
    assert reply.status == 200, reply.body
    return reply.json


def together(server, prompts, max_tokens):
    with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
        return [answer["choices"][0]["text"] for answer in pool.map(lambda ids: complete(server, ids, max_tokens), prompts)]


def open_socket(server, body, announced=None):
    """A connection that has sent a completion request; `announced`: a Content-Length other than the body's."""
    text = json.dumps(body).encode()
    client = socket.create_connection((server.host, server.port), timeout=20)
    client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (announced or len(text)) + text)
    return client


def idle(server):
    return server.metric(RUNNING) == 0 and server.metric("vllm:num_requests_waiting") == 0 and server.metric(USED) == 0


@pytest.mark.parametrize("length", [31, 32, 33])
def test_case_27_a_prompt_wholly_in_the_cache(serve, length):
    cached, plain = serve("--num-kv-blocks", "64", "--enable-prefix-caching"), serve("--num-kv-blocks", "64", "--no-enable-prefix-caching")
    expected = complete(plain, prompt(1, length), 8)["choices"][0]["text"]
    for attempt in range(3):
        answer = complete(cached, prompt(1, length), 8)
        assert answer["choices"][0]["text"] == expected
        assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == (0 if attempt == 0 else (length - 1) // 16 * 16)


def test_case_28_blocks_come_back(serve):
    """200 requests, 8 at a time, every fourth cut off, half of them with one prefix."""
    server = serve("--num-kv-blocks", "64", "--enable-prefix-caching")
    shared = prompt(0, 64)
    prompts = [(shared if i % 2 else prompt(i, 20)) + prompt(1000 + i % 10, 8) for i in range(200)]
    solo = {}
    for ids in prompts[1::4] + prompts[2::4] + prompts[3::4]:
        solo[tuple(ids)] = complete(server, ids, 8)["choices"][0]["text"]

    def one(i):
        assert server.metric("vllm:kv_cache_usage_perc") <= 1
        if i % 4 == 0:
            client = open_socket(server, {"prompt": prompts[i], "max_tokens": 100, "ignore_eos": True, "stream": True})
            client.recv(100)
            client.close()
            return
        text = complete(server, prompts[i], 8)["choices"][0]["text"]
        assert text == solo[tuple(prompts[i])]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(200)))
    assert eventually(lambda: idle(server))
    for ids, text in solo.items():
        assert complete(server, list(ids), 8)["choices"][0]["text"] == text


def test_case_29_preempted_streams_are_whole(serve):
    server = serve("--num-kv-blocks", "7", "--block-size", "16")
    prompts = [prompt(1, 34), prompt(2, 34)]
    solo = [complete(server, ids, 35)["choices"][0]["text"] for ids in prompts]
    fields = {"max_tokens": 35, "ignore_eos": True, "temperature": 0, "stream": True, "stream_options": {"include_usage": True}}
    for _ in range(20):  # until they overlap
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            replies = list(pool.map(lambda ids: server.complete(ids, **fields), prompts))
        for reply, text in zip(replies, solo):
            *chunks, last = reply.events
            assert stream_text(chunks) == (text, "length") and last["usage"]["completion_tokens"] == 35
        if server.metric("vllm:num_preemptions_total") > 0:
            break
    assert server.metric("vllm:num_preemptions_total") > 0
    assert eventually(lambda: idle(server))


def test_case_30_chunks_change_nothing(serve):
    """Around and above a chunk of 128: the same tokens, and log-probabilities of the first one to the last digit."""
    chunked = serve("--num-kv-blocks", "256", "--long-prefill-token-threshold", "128", "--no-enable-prefix-caching", max_model_len=2048)
    whole = serve("--num-kv-blocks", "256", "--no-enable-chunked-prefill", "--max-num-batched-tokens", "2048",
                  "--no-enable-prefix-caching", max_model_len=2048)
    texts = set()
    for length in (127, 128, 129, 255, 256, 257, 1025):
        mine, other = (complete(server, prompt(length, length), 8, logprobs=5)["choices"][0] for server in (chunked, whole))
        assert mine == other, length
        texts.add(mine["text"])
    assert len(texts) > 3


def test_case_31_company_changes_nothing(server):
    prompts = [prompt(7, 12) + [2000 + i] for i in range(8)]
    solo = [complete(server, ids, 16)["choices"][0]["text"] for ids in prompts]
    assert len(set(solo)) > 1
    assert together(server, prompts, 16) == solo
    assert together(server, prompts + [prompt(9, 200)] * 3, 16)[:8] == solo


def test_case_32_leaving_while_queued_and_during_another_prefill(serve):
    server = serve("--num-kv-blocks", "64", "--max-num-seqs", "1")
    expected = complete(server, prompt(3, 200), 40)["choices"][0]["text"]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        other = pool.submit(complete, server, prompt(3, 200), 40)
        queued = [open_socket(server, {"prompt": prompt(i, 100), "max_tokens": 100, "ignore_eos": True, "n": 4}) for i in range(4)]
        for client in queued:
            client.close()
        assert other.result()["choices"][0]["text"] == expected
    assert eventually(lambda: idle(server))
    server.terminate()
    assert server.process.wait(10) == 0


def test_case_32d_leaving_while_another_prompt_is_computed(serve):
    server = serve("--num-kv-blocks", "256", "--long-prefill-token-threshold", "16", "--no-enable-prefix-caching", max_model_len=2048)
    expected = complete(server, prompt(3, 1500), 8)["choices"][0]["text"]
    fields = {"max_tokens": 1000, "ignore_eos": True, "stream": True}
    for attempt in range(3):
        leaving = [open_socket(server, {"prompt": prompt(i, 8), **fields}) for i in range(3)]
        for client in leaving:
            assert client.recv(100)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            other = pool.submit(complete, server, prompt(3, 1500), 8)
            assert eventually(lambda: server.metric(RUNNING) == 4)
            for client in leaving:
                client.close()
            assert eventually(lambda: server.metric(RUNNING) <= 1)
            assert other.result()["choices"][0]["text"] == expected
        assert eventually(lambda: idle(server))
    server.terminate()
    assert server.process.wait(10) == 0


def test_case_33_a_full_queue_refuses_at_once(serve):
    server = serve("--num-kv-blocks", "64", "--max-num-seqs", "2", "--max-queued-requests", "4")
    holders = [open_socket(server, {"prompt": [64], "max_tokens": 250, "ignore_eos": True, "n": 3, "stream": True}) for _ in range(2)]
    assert eventually(lambda: server.metric("vllm:num_requests_waiting") >= 3)

    def one(i):
        start = time.monotonic()
        reply = server.complete([64 + i], max_tokens=2, ignore_eos=True)
        return reply, time.monotonic() - start

    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        answers = pool.map(one, range(64))
        start = time.monotonic()
        assert server.get("/health").status == 200 and time.monotonic() - start < 2
        answers = list(answers)
    refused = [(reply, seconds) for reply, seconds in answers if reply.status == 429]
    assert refused and all(reply.error["message"] and "retry-after" in reply.headers for reply, _ in refused)
    assert all(reply.status in (200, 429) for reply, _ in answers)
    for client in holders:
        client.close()
    assert eventually(lambda: idle(server))


def test_a_half_closed_client_ends_its_request(server):
    client = open_socket(server, {"prompt": [64], "max_tokens": 250, "ignore_eos": True, "n": 8})
    client.shutdown(socket.SHUT_WR)
    assert eventually(lambda: idle(server), 5)
    client.close()


def test_a_body_that_stops_gets_408_and_holds_up_no_drain(serve):
    server = serve("--num-kv-blocks", "64", "--read-timeout", "0.5", "--grace-seconds", "20")
    stopped = open_socket(server, {"prompt": "x"}, announced=1000)
    complete(server, [64], 2)
    assert stopped.recv(1000).startswith(b"HTTP/1.1 408 ")
    stopped.close()
    again = open_socket(server, {"prompt": "x"}, announced=1000)
    complete(server, [64], 2)
    start = time.monotonic()
    server.terminate()
    assert again.recv(1000).startswith(b"HTTP/1.1 408 ")
    again.close()
    assert server.process.wait(10) == 0 and time.monotonic() - start < 8


STREAMER = """
import http.client, json, sys
connection = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]))
connection.request("POST", "/v1/completions", json.dumps({"prompt": [64] * 20, "max_tokens": 230, "n": 4, "ignore_eos": True, "stream": True}))
sys.stdout.buffer.write(connection.getresponse().read())
"""


def start_streamer(server):
    return subprocess.Popen([sys.executable, "-c", STREAMER, server.host, str(server.port)], stdout=subprocess.PIPE)


def test_clients_killed_at_any_time(server):
    source = random.Random(5)
    clients = [start_streamer(server) for _ in range(8)]
    for client in clients:
        time.sleep(source.uniform(0, 0.1))
        client.send_signal(signal.SIGKILL)
        client.communicate()
    assert eventually(lambda: idle(server))


def test_a_stopped_client_goes_on_later(server):
    client = start_streamer(server)
    time.sleep(0.15)
    client.send_signal(signal.SIGSTOP)
    for _ in range(3):
        complete(server, [64], 4)
    client.send_signal(signal.SIGCONT)
    out, _ = client.communicate(timeout=30)
    assert out.count(b'"finish_reason":"length"') == 4 and out.endswith(b"data: [DONE]\n\n")


def may_run_in_real_time():
    probe = "import os; os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))"
    return subprocess.run([sys.executable, "-c", probe], stderr=subprocess.DEVNULL).returncode == 0


def test_only_the_network_threads_run_before_all_others(server):
    """/health is answered at once beside busy programs (measured: docs/performance.md)."""
    tasks = [int(task.name) for task in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir()]
    first = [task for task in tasks if os.sched_getscheduler(task) & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR]
    assert len(first) == (2 if may_run_in_real_time() else 0)
