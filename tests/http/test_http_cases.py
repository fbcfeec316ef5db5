# SPDX-License-Identifier: Apache-2.0
"""Cases 19, 32, 38-41, 43 of the public reports and the health of the server around them."""
import json
import signal
import socket
import threading
import time

import pytest

from conftest import BUILD
from serving import SERVED_NAME, Server, force


def eventually(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("body", [
    r'{"messages":[{"role":"user","content":"hi \ud83d"}]}', r'{"messages":[{"role":"user","content":"\ude00"}]}',
    r'{"messages":[{"role":"user","content":"x"}],"stop":"\ud83d"}', r'{"messages":[{"role":"user","content":"x","name":"\ud83d"}]}',
    r'{"messages":[{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f","arguments":"\ud83d"}}]}]}',
    r'{"messages":[{"role":"user","content":"w"},{"role":"assistant","tool_calls":[{"type":"function","id":"c","function":{"name":"f",'
    r'"arguments":"{\"a\":\"\\ud83d\"}"}}]},{"role":"tool","content":"x","tool_call_id":"c"}]}',
    b'{"messages":[{"role":"user","content":"\xff"}]}', b'{"messages":[{"role":"user","content":"\xed\xa0\xbd"}]}'])
def test_case_38_lone_surrogates_and_bad_utf8(server, body):
    reply = server.post("/v1/chat/completions", body)
    assert reply.status == 400 and reply.error


def test_case_38_a_pair_is_one_character(server):
    assert server.post("/tokenize", r'{"prompt":"\ud83d\ude00"}').json["tokens"] == [141334]


@pytest.mark.parametrize("method, path, body, status, code", [
    ("POST", "/v1/chat/completions", '{"model":"M","messages":[],x}', 400, None), ("POST", "/v1/chat/completions", "[]", 400, None),
    ("POST", "/v1/chat/completions", "null", 400, None), ("POST", "/v1/chat/completions", '"s"', 400, None),
    ("POST", "/v1/chat/completions", '{"model":"M"}', 400, None), ("POST", "/v1/completions", '{"prompt":"x","max_tokens":"5"}', 400, None),
    ("POST", "/v1/chat/completions", '{"messages":{}}', 400, None),
    ("POST", "/v1/chat/completions", '{"messages":[{"role":"king","content":"x"}]}', 400, None),
    ("POST", "/v1/completions", '{"model":"nope","prompt":"x"}', 404, "model_not_found"),
    ("GET", "/v1/chat/completions", None, 405, "method_not_allowed"), ("GET", "/nothing", None, 404, "not_found"),
    ("POST", "/v1/completions", "[" * 100_000, 400, None), ("POST", "/v1/completions", '{"prompt":' + "{" * 5 + "}" * 6, 400, None)])
def test_case_39_errors_are_the_error_object(server, method, path, body, status, code):
    reply = server.request(method, path, body=body)
    assert reply.status == status and reply.error["code"] == code


def test_case_40_keys(start_server):
    server = start_server(flags=["--api-key", "secret"])
    preflight = server.request("OPTIONS", "/v1/chat/completions", headers={"Origin": "http://a", "Access-Control-Request-Method": "POST"})
    assert preflight.status in (200, 204) and "access-control-allow-origin" in preflight.headers
    for method, path in (("GET", "/v1/models"), ("POST", "/tokenize"), ("POST", "/v1/completions/"), ("GET", "//v1/models"), ("GET", "/version")):
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "secret"}):
            reply = server.request(method, path, headers=headers)
            assert reply.status == 401 and reply.error["code"] == "invalid_api_key"
    assert server.get("/v1/models", headers={"Authorization": "bearer secret"}).status == 200
    assert server.get("/health").status == 200 and server.get("/metrics").status == 200


def test_case_43_usage_in_streams(server):
    def events(**fields):
        return server.complete(stream=True, max_tokens=3, ignore_eos=True, **fields).events

    assert all("usage" not in event for event in events())
    *chunks, last = events(stream_options={"include_usage": True}, n=2)
    assert all(event["usage"] is None for event in chunks)
    assert last["choices"] == [] and last["usage"]["prompt_tokens"] == 1 and last["usage"]["completion_tokens"] == 6
    running = events(stream_options={"include_usage": True, "continuous_usage_stats": True})
    counts = [event["usage"]["completion_tokens"] for event in running]
    assert counts == sorted(counts) and counts[-1] == 3
    assert server.complete(stream_options={"include_usage": True}).status == 400


@pytest.mark.parametrize("stream", [True, False])
def test_case_32_a_client_that_leaves_ends_its_request(server, stream):
    running = "vllm:num_requests_running"
    assert eventually(lambda: server.metric(running) == 0)
    connection = server.connect()
    connection.request("POST", "/v1/completions", body=json.dumps({"prompt": [64] * 20, "max_tokens": 230, "n": 8, "ignore_eos": True,
                                                                    "stream": stream}))
    if stream:
        response = connection.getresponse()
        response.read(200)
    else:
        assert eventually(lambda: server.metric(running) > 0)
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()
    assert eventually(lambda: server.metric(running) == 0, 5)
    assert eventually(lambda: server.get("/load").json["server_load"] == 0)


def read_all(connection, out):
    try:
        out.append(connection.getresponse().read())
    except OSError as error:
        out.append(error)


def start_stream(server, **fields):
    connection = server.connect()
    connection.request("POST", "/v1/completions", body=json.dumps({"prompt": "x", "ignore_eos": True, "stream": True, **fields}))
    return connection


def test_case_41_a_drain_lets_streams_finish(start_server):
    server = start_server(flags=["--grace-seconds", "20"])
    connection = start_stream(server, max_tokens=200, n=4)
    assert eventually(lambda: server.metric("vllm:generation_tokens_total") > 0)
    out = []
    reader = threading.Thread(target=read_all, args=(connection, out))
    reader.start()
    server.terminate()
    reader.join(20)
    assert out[0].count(b'"finish_reason":"length"') == 4 and out[0].endswith(b"data: [DONE]\n\n")
    assert server.process.wait(10) == 0


def test_case_41_the_grace_time_is_kept_and_the_stream_gets_an_error_frame(start_server):
    server = start_server(flags=["--grace-seconds", "0"])
    connection = start_stream(server, max_tokens=250, n=8)
    assert eventually(lambda: server.metric("vllm:generation_tokens_total") > 0)
    out = []
    reader = threading.Thread(target=read_all, args=(connection, out))
    reader.start()
    server.terminate()
    assert server.process.wait(10) == 0
    reader.join(10)
    assert b'"error":' in out[0] and out[0].endswith(b"data: [DONE]\n\n") or out[0].count(b'"length"') == 8
    with pytest.raises(OSError):
        server.get("/health")


def test_case_41_a_second_signal_ends_at_once(start_server):
    server = start_server(flags=["--grace-seconds", "60"])
    connection = start_stream(server, max_tokens=250, n=100)  # kept: a dropped connection ends its requests
    assert eventually(lambda: server.metric("vllm:num_requests_running") > 0)
    server.terminate()
    time.sleep(0.2)
    start = time.monotonic()
    server.terminate()
    assert server.process.wait(5) in (0, 128 + signal.SIGTERM)
    assert time.monotonic() - start < 2
    connection.close()


def test_metrics_parse(server):
    before = server.metric("vllm:generation_tokens_total")
    for _ in range(3):
        server.complete(max_tokens=2, **force(370))
    assert server.metric("vllm:generation_tokens_total") >= before + 6
    for name in ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"):
        assert server.metric(name) >= 0
    for name, least in {
        "vllm:time_to_first_token_seconds": 3,
        "vllm:inter_token_latency_seconds": 3,
        "vllm:request_time_per_output_token_seconds": 3,
        "vllm:e2e_request_latency_seconds": 3,
        "vllm:request_queue_time_seconds": 3,
        "vllm:request_prefill_time_seconds": 3,
        "vllm:request_decode_time_seconds": 3,
        "vllm:request_inference_time_seconds": 3,
        "vllm:request_prompt_tokens": 3,
        "vllm:request_generation_tokens": 3,
        "vllm:iteration_tokens_total": 6,
    }.items():
        buckets = server.histogram(name)
        bounds, counts = [bound for bound, _ in buckets], [count for _, count in buckets]
        assert bounds == sorted(set(bounds)) and bounds[-1] == float("inf"), name
        assert counts == sorted(counts) and counts[-1] == server.metric(name + "_count") >= least, name
        assert server.metric(name + "_sum") >= 0, name
    assert server.get("/metrics").headers["content-type"].startswith("text/plain")


def test_models(server):
    entry = server.get("/v1/models").json["data"][0]
    assert entry["id"] == SERVED_NAME and entry["object"] == "model" and entry["max_model_len"] == 256
    assert server.get("/v1/models/" + SERVED_NAME).json == entry
    assert server.get("/v1/models/nope").error["code"] == "model_not_found"


def test_case_19_what_can_never_fit_is_refused_and_blocks_nobody(make_model, tmp_path):
    """A pool of 8 blocks holds 128 tokens, the context is 256."""
    server = Server([BUILD / "lockstep", "serve", "--model", make_model(eos_token_id=[151645, 151643]), "--port", "0",
                     "--served-model-name", SERVED_NAME, "--max-model-len", "256", "--num-kv-blocks", "8"], tmp_path / "log")
    try:
        for prompt, max_tokens in ((130, 1), (100, 100), (128, 2), (255, 1)):
            reply = server.complete([7] * prompt, max_tokens=max_tokens)
            assert reply.status == 400 and "128 tokens" in reply.error["message"], reply.body
            short = server.complete([7] * 5, max_tokens=5, ignore_eos=True)
            assert short.status == 200 and short.json["usage"]["completion_tokens"] == 5
        # The last generated token needs no slot, so this fits to the last block.
        assert server.complete([7] * 128, max_tokens=1).status == 200
        assert server.complete([7] * 100, max_tokens=29, ignore_eos=True).json["usage"]["completion_tokens"] == 29
        assert server.metric("lockstep:kv_blocks_used") == 0
    finally:
        server.kill()
