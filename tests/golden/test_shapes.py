# SPDX-License-Identifier: Apache-2.0
"""Shapes and rope kinds without golden values of their own: random models made at test time, against the numpy reference
in tests/tools, and exact on every axis."""
import json
import pathlib
import sys

import numpy as np
import pytest
from lockstep import F32, GOLDEN, TINY_MODELS, generate, run, score

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
from make_random_model import PRESETS, write_model  # noqa: E402
from reference_forward import logprobs  # noqa: E402
from shapes import ROPES, SHAPES, TINY, ids_of  # noqa: E402


def check_scores(model, ids, bound, *args, context=0, isa=None):
    """`score` of the ids against the reference."""
    line, _ = score(model, *args, "--prompt-ids", ",".join(map(str, ids)), isa=isa)
    want = logprobs(model, ids, context)[np.arange(len(ids) - 1), ids[1:]]
    assert np.abs(np.array(line["logprobs"][1:], np.float32) - want).max() < bound
    return line


@pytest.mark.parametrize("name", TINY_MODELS)
def test_the_reference_reproduces_the_golden_values(name):
    golden = json.loads((GOLDEN / name / "golden.json").read_text())
    for prompt in golden["prompts"]:
        greedy = prompt["greedy_ids"]
        found = logprobs(GOLDEN / name, prompt["prompt_ids"] + greedy[:-1], rows=len(greedy))
        assert found.argmax(axis=1).tolist() == greedy, prompt["name"]
        for row, top in zip(found, prompt["top"]):
            assert max(abs(row[token] - logprob) for token, logprob in top) < 1e-4, prompt["name"]


@pytest.mark.parametrize("name", SHAPES)
def test_shape(name, tmp_path):
    model = write_model(tmp_path, seed=3, **SHAPES[name])
    for isa in ("ref", "avx2"):
        check_scores(model, ids_of(70), 2e-4, *F32, isa=isa)
    run("exactness", "--quick", "--model", model)


@pytest.mark.parametrize("kind,context", [("dynamic", 64), ("dynamic", 65), ("dynamic", 256), ("longrope", 48), ("longrope", 64),
                                          ("yarn", 64), ("linear", 64)])
def test_rope_kind(kind, context, tmp_path):
    model = write_model(tmp_path, seed=5, max_position=64, rope=ROPES[kind], **TINY)
    served = ["--max-model-len", context]
    ids = ids_of(min(context, 200) - 4)
    check_scores(model, ids, 2e-4, *F32, *served, context=context)
    if kind in ("dynamic", "longrope"):  # the served context matters, and not the length of the request
        other = logprobs(model, ids[:40], {"dynamic": 128, "longrope": 49 if context == 48 else 48}[kind])
        mine = logprobs(model, ids[:40], context)
        assert np.abs(other - mine).max() > 1e-2
    whole = generate(model, [ids[:30], ids], *served, "--logprobs", 2, max_tokens=4)
    for chunk in (1, 7):
        assert generate(model, [ids[:30], ids], *served, "--logprobs", 2, "--long-prefill-token-threshold", chunk,
                        max_tokens=4) == whole


def test_dynamic_rope_may_serve_its_factor_and_no_more(tmp_path):
    model = write_model(tmp_path, max_position=64, rope=ROPES["dynamic"], **TINY)
    ids = ",".join(map(str, ids_of(8)))
    done = run("score", "--model", model, "--max-model-len", 257, "--prompt-ids", ids, check=False)
    assert done.returncode != 0 and "--max-model-len is 257, must be in [0, 256]" in done.stderr


def test_yarn_at_32768_positions(tmp_path):
    """32,768 tokens, eight times past the original length: the chunks' sizes and the instruction set change no bit of the
    scores, and the first 1,000 are the reference's."""
    rope = {"type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096}
    shape = dict(arch="qwen3", hidden=16, intermediate=16, layers=1, heads=1, kv_heads=1, head_dim=8, tied=True)
    model = write_model(tmp_path, vocab=256, max_position=32768, rope=rope, **shape)
    ids = [(i * i + 3 * i) % 97 for i in range(32768)]
    first = check_scores(model, ids[:1000], 2e-4, *F32)
    scores = {}
    for isa, budget in (("avx2", 4096), ("avx2", 777), ("ref", 2048)):
        line, _ = score(model, *F32, "--max-num-batched-tokens", budget, "--prompt-ids", ",".join(map(str, ids)), isa=isa)
        scores[isa, budget] = line["logprobs"]
    values = list(scores.values())
    assert len(values[0]) == 32768 and values[0] == values[1] == values[2]
    assert values[0][:1000] == first["logprobs"]


@pytest.mark.full
def test_qwen3_14b_shape(tmp_path):
    """Two layers of Qwen3-14B: 40/8 heads in groups of 5, hidden 5120, untied; 1.4 GB of bf16."""
    model = write_model(tmp_path, **{**PRESETS["qwen3-14b"], "layers": 2})
    args = ["--max-model-len", 256, "--max-num-seqs", 4, "--max-num-batched-tokens", 64]
    check_scores(model, ids_of(24), 5e-4, "--weights", "native", "--kv-cache-dtype", "f32", *args)
    prompts = [ids_of(24), ids_of(9), ids_of(17)]
    together = generate(model, prompts, *args, "--logprobs", 2, max_tokens=3)
    chunked = generate(model, prompts, *args, "--logprobs", 2, "--long-prefill-token-threshold", 5, "--threads", 1, max_tokens=3)
    assert chunked == together
    alone = generate(model, prompts[:1], *args, "--logprobs", 2, max_tokens=3)
    assert alone == together[:1]
