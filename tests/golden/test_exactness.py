# SPDX-License-Identifier: Apache-2.0
"""The promise, from outside: tokens and logprob bits of a request do not depend on its company, chunks, threads, block size or
instruction set. JSON floats round-trip, so equal numbers are equal bits."""
import json

import pytest
from lockstep import GOLDEN, SMOLLM2, available_isas, generate


def prompts_of(name, count):
    """`count` different prompts of different lengths, cut from the golden ones."""
    found = [p["prompt_ids"] for p in json.loads((GOLDEN / name / "golden.json").read_text())["prompts"]]
    made = [ids[: max(1, len(ids) - cut)] for cut in (0, 1, 2, 5, 9) for ids in found]
    unique = []
    for ids in made:
        if ids not in unique:
            unique.append(ids)
    assert len(unique) >= count
    return unique[:count]


def bits(results):
    return [(r["token_ids"], r["logprobs"], r["top_logprobs"]) for r in results]


CASES = [("tiny-qwen3", GOLDEN / "tiny-qwen3"), ("tiny-qwen2", GOLDEN / "tiny-qwen2"), ("tiny-llama", GOLDEN / "tiny-llama"),
         ("smollm2", SMOLLM2)]


@pytest.mark.parametrize("name,model", CASES)
def test_sixteen_in_a_batch_equal_alone(name, model):
    prompts = prompts_of(name, 16)
    args = ["--logprobs", "3"]
    together = bits(generate(model, prompts, *args, max_tokens=16))
    alone = [bits(generate(model, [p], *args, max_tokens=16))[0] for p in prompts]
    assert together == alone


@pytest.mark.parametrize("name,model", CASES)
def test_chunks_threads_and_blocks_do_not_matter(name, model):
    prompts = prompts_of(name, 6)
    args = ["--logprobs", "3"]
    base = bits(generate(model, prompts, *args, max_tokens=12))
    for other in (["--long-prefill-token-threshold", "1"], ["--long-prefill-token-threshold", "7"],
                  ["--max-num-batched-tokens", "16"], ["--threads", "1"], ["--threads", "3"], ["--block-size", "256"],
                  ["--block-size", "64", "--max-num-seqs", "2"]):
        assert bits(generate(model, prompts, *args, *other, max_tokens=12)) == base, other


@pytest.mark.parametrize("name,model", CASES)
def test_instruction_sets_do_not_matter(name, model):
    prompts = [p[:40] for p in prompts_of(name, 4)]
    args = ["--logprobs", "3"]
    base = bits(generate(model, prompts, *args, isa="ref", max_tokens=8))
    isas = available_isas()
    assert "avx2" in isas
    for isa in isas:
        assert bits(generate(model, prompts, *args, isa=isa, max_tokens=8)) == base, isa


def test_sampled_tokens_do_not_depend_on_company():
    prompts = prompts_of("smollm2", 8)
    args = ["--temperature", "0.9", "--top-p", "0.95", "--top-k", "50", "--seed", "7", "--logprobs", "0"]
    together = bits(generate(SMOLLM2, prompts, *args, max_tokens=12))
    alone = [bits(generate(SMOLLM2, [p], *args, max_tokens=12))[0] for p in prompts]
    assert together == alone
    assert len({tuple(t) for t, _, _ in together}) > 1
