# SPDX-License-Identifier: Apache-2.0
"""Cases 20, 21, 23-26 of the public reports: sampling parameters, defaults, logprobs, many choices."""
import concurrent.futures
import math

import pytest

from serving import force

PROMPT = "The capital of France is"


def test_case_20_tiny_temperatures(server):
    def text(temperature):
        return server.complete(PROMPT, max_tokens=8, temperature=temperature, ignore_eos=True).choice["text"]

    greedy = text(0)
    for temperature in (1e-5, 1e-30, -0.0):
        assert text(temperature) == greedy
    assert len(text(1e-4)) > 0
    for bad in (-1, 3, "hot"):
        assert server.complete(temperature=bad).error["param"] == "temperature"


def test_case_21_top_k_and_top_p(server):
    for good in ({"top_k": 9999999}, {"top_k": 0}, {"top_k": -1}, {"top_p": 1}, {"min_p": 0}):
        assert server.complete(max_tokens=4, **good).status == 200
    for name, bad in (("top_k", -2), ("top_p", 0), ("top_p", 1.1)):
        reply = server.complete(max_tokens=4, **{name: bad})
        assert reply.status == 400 and reply.error["param"] == name
    greedy = {"max_tokens": 24, "temperature": 0, "ignore_eos": True}
    alone = server.complete(PROMPT, **greedy).choice["text"]
    assert server.complete(PROMPT, max_tokens=24, top_p=1e-9, ignore_eos=True).choice["text"] == alone
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        noisy = [pool.submit(server.complete, PROMPT, max_tokens=24, top_k=5, ignore_eos=True) for _ in range(4)]
        beside = [pool.submit(server.complete, PROMPT, **greedy) for _ in range(2)]
        assert [run.result().choice["text"] for run in beside] == [alone, alone]
        assert all(run.result().status == 200 for run in noisy)


def test_seeds(server):
    def text(**fields):
        return [c["text"] for c in server.complete(PROMPT, max_tokens=16, temperature=2, ignore_eos=True, **fields).json["choices"]]

    assert text(seed=1, n=2) == text(seed=1, n=2)
    first, second = text(seed=1, n=2)
    assert first != second and text(seed=1) == [first] and text(seed=2) != [first]


def test_case_23_every_end_token_ends(server):
    reply = server.complete(max_tokens=5, **force(151643))
    assert (reply.choice["text"], reply.choice["finish_reason"]) == ("", "stop")
    assert reply.json["usage"]["completion_tokens"] == 1
    reply = server.complete(max_tokens=5, ignore_eos=True, **force(151643))
    assert (reply.choice["text"], reply.choice["finish_reason"]) == ("", "length")
    assert reply.json["usage"]["completion_tokens"] == 5


def test_case_24_defaults_of_the_model(start_server, make_model):
    server = start_server(make_model(eos_token_id=151645, temperature=0.6, top_k=20, top_p=0.95, repetition_penalty=1.05), ["--log-level", "debug"])

    def effective(**fields):
        assert server.complete(max_tokens=1, **fields).status == 200
        line = [line for line in server.log_text().splitlines() if "temperature=" in line][-1]
        return {key: float(line.split(key + "=")[1].split()[0]) for key in ("temperature", "top_k", "top_p", "repetition_penalty")}

    files = {"temperature": 0.6, "top_k": 20, "top_p": 0.95, "repetition_penalty": 1.05}
    assert effective() == files
    assert effective(temperature=None, top_k=None) == files
    assert effective(temperature=0) == {**files, "temperature": 0}
    explicit = {"temperature": 1.5, "top_k": 0, "top_p": 1, "repetition_penalty": 1}
    assert effective(**explicit) == explicit


def test_case_25_logprobs_of_chats(server):
    entry = server.chat(max_tokens=1, logprobs=True).choice["logprobs"]["content"][0]
    assert entry["top_logprobs"] == [] and entry["logprob"] <= 0 and math.isfinite(entry["logprob"])
    entry = server.chat(max_tokens=1, logprobs=True, top_logprobs=1, **force(21927)).choice["logprobs"]["content"][0]
    assert (entry["token"], entry["bytes"]) == (" Hello", [32, 72, 101, 108, 108, 111])
    assert len(entry["top_logprobs"]) == 1 and entry["top_logprobs"][0]["logprob"] >= entry["logprob"]
    entry = server.chat(max_tokens=1, logprobs=True, **force(11162)).choice["logprobs"]["content"][0]
    assert entry["bytes"] == [32, 240, 159]


def test_logprobs_of_completions_and_prompts(server):
    fields = {"max_tokens": 3, "temperature": 0, "logprobs": 2, "ignore_eos": True}
    plain = server.complete("a b c", **fields).choice["logprobs"]
    echoed = server.complete("a b c", echo=True, **fields).choice["logprobs"]
    assert echoed["tokens"][:3] == ["a", " b", " c"] and echoed["tokens"][3:] == plain["tokens"]
    assert echoed["token_logprobs"][0] is None and echoed["token_logprobs"][3:] == plain["token_logprobs"]
    scored = server.complete("a b c", max_tokens=0, prompt_logprobs=0).choice["prompt_logprobs"]
    assert [list(entry.values())[0]["logprob"] for entry in scored[1:]] == echoed["token_logprobs"][1:3]
    streamed = server.complete("a b c", echo=True, stream=True, **fields).events
    joined = [value for event in streamed for choice in event["choices"] for value in choice["logprobs"]["token_logprobs"]]
    assert joined == echoed["token_logprobs"]


def test_case_26_lists_of_prompts(server):
    choices = server.complete(["a", "b"], n=2, max_tokens=2, echo=True).json["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2, 3]
    assert [choice["text"][0] for choice in choices] == ["a", "a", "b", "b"]
    assert len(server.complete([[64], [65]], max_tokens=1).json["choices"]) == 2
    assert len(server.complete([64, 65], max_tokens=1).json["choices"]) == 1
    assert server.complete(["a", [65]]).status == 400
    assert server.complete("a", n=100_000).status == 400


@pytest.mark.parametrize("fields", [{"frequency_penalty": 2}, {"presence_penalty": 2}, {"repetition_penalty": 2}, {"min_p": 0.5}])
def test_case_22_penalties_alone_and_in_company(server, fields):
    body = {"max_tokens": 24, "temperature": 0, "ignore_eos": True, **fields}
    alone = server.complete(PROMPT, **body).choice["text"]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        longer = [pool.submit(server.complete, PROMPT * 8, max_tokens=64, ignore_eos=True, repetition_penalty=1.5) for _ in range(3)]
        assert server.complete(PROMPT, **body).choice["text"] == alone
        assert all(run.result().status == 200 for run in longer)
