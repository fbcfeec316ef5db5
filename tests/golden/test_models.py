# SPDX-License-Identifier: Apache-2.0
"""Golden tokens and logprobs of real and tiny models, once for each instruction set that the machine has."""
import json
import struct

import pytest
from lockstep import F32, GOLDEN, SMOLLM2, TINY_MODELS, available_isas, generate, score

ISAS = available_isas()


def golden(name):
    return json.loads((GOLDEN / name / "golden.json").read_text())


def check_prompts(model, want, bound, isa, top_logprobs):
    prompts = want["prompts"]
    results = generate(model, [p["prompt_ids"] for p in prompts], *F32, "--logprobs", top_logprobs, isa=isa,
                       max_tokens=len(prompts[0]["greedy_ids"]))
    for prompt, result in zip(prompts, results):
        assert result["token_ids"] == prompt["greedy_ids"], prompt["name"]
        assert result["finish_reason"] == "length"
        for step, top in enumerate(prompt["top"]):
            mine = {token: logprob for token, logprob in result["top_logprobs"][step]}
            assert result["logprobs"][step] == mine[result["token_ids"][step]]
            for token, logprob in top[:top_logprobs - 2]:  # the last places may swap within the bound
                assert abs(mine[token] - logprob) < bound, (prompt["name"], step, token)


def check_prompt_logprobs(line, want, bound):
    assert line["logprobs"][0] is None
    for mine, theirs in zip(line["logprobs"][1:], want["logprobs"][1:], strict=True):
        assert abs(mine - theirs) < bound


def test_the_machine_has_the_floor():
    assert ISAS[:2] == ["ref", "avx2"]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", TINY_MODELS)
def test_tiny_model(name, isa):
    want = golden(name)
    check_prompts(GOLDEN / name, want, 2e-4, isa, 20)
    scored = want["prompt_logprobs"]
    line, total = score(GOLDEN / name, *F32, "--prompt-ids", ",".join(map(str, scored["prompt_ids"])), isa=isa)
    check_prompt_logprobs(line, scored, 2e-4)
    for mine, theirs in zip(line["rank"][1:], scored["rank"][1:], strict=True):
        assert abs(mine - theirs) <= 2 + theirs / 1000  # of 151,936 logits some lie closer together than the bound
    assert total["sum"] == line["sum"]


def test_smollm2():
    want = json.loads((GOLDEN / "smollm2/golden.json").read_text())
    check_prompts(SMOLLM2, want, 1e-3, None, 10)


def test_smollm2_passage():
    want = json.loads((GOLDEN / "smollm2/golden.json").read_text())
    line, _ = score(SMOLLM2, *F32, "--prompt-file", GOLDEN / "smollm2/passage.txt")
    assert len(line["prompt_token_ids"]) == 1782
    assert abs(line["perplexity"] - 25.3956) < 0.001
    raw = (GOLDEN / "smollm2/passage_logprobs.npy").read_bytes()
    expected = struct.unpack("<1781f", raw[-4 * 1781:])
    for mine, theirs in zip(line["logprobs"][1:], expected, strict=True):
        assert abs(mine - theirs) < 1e-3
    first = want["prompt_logprobs"]["logprobs"]
    check_prompt_logprobs({"logprobs": line["logprobs"][:len(first)]}, {"logprobs": first}, 1e-3)
