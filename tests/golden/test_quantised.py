# SPDX-License-Identifier: Apache-2.0
"""Quantised safetensors. With --weights f32 a model gives the bits of the same model dequantised by numpy; natively it stays
near it and keeps the promise; what does not fit is refused by name."""
import json
import sys

import numpy as np
import pytest
from lockstep import F32, GOLDEN, ROOT, run, score

sys.path.insert(0, str(ROOT / "tests/tools"))
from quantize_safetensors import SCHEMES, quantize, read_tensors, write_tensors  # noqa: E402

MODEL = GOLDEN / "tiny-qwen3"
PROMPT = ["--prompt-ids", ",".join(str(i * 7919 % 150000) for i in range(1, 40))]
# Largest difference of a log-probability between native and f32 arithmetic. fp8 is bf16 weights in f32 arithmetic.
NATIVE_BOUND = {"fp8": 1e-4, "int8-w8a16": 0.02, "packed8-groups": 0.15, "packed8": 0.02, "int8-w8a8": 0.15, "gptq-int8": 0.15}


def bound_of(scheme):
    fits = [bound for name, bound in NATIVE_BOUND.items() if scheme.startswith(name)]
    return fits[0] if fits else 0.3


def logprobs(model, *args):
    return score(model, *args, *PROMPT)[0]["logprobs"][1:]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_scheme(scheme, tmp_path):
    quantised = quantize(MODEL, tmp_path / "quantised", scheme)
    plain = quantize(MODEL, tmp_path / "plain", scheme, dequantized=True)
    want = logprobs(plain, *F32)
    assert logprobs(quantised, *F32) == want
    native = logprobs(quantised, "--kv-cache-dtype", "f32")
    difference = max(abs(a - b) for a, b in zip(native, want, strict=True))
    assert difference < bound_of(scheme)
    assert difference > 0 or scheme.startswith("fp8")
    assert max(abs(a - b) for a, b in zip(logprobs(MODEL, *F32), want)) > 1e-4  # the scheme does change the model


@pytest.mark.parametrize("scheme", ["int8-w8a8", "packed4-channel", "awq"])
def test_promise(scheme, tmp_path):
    model = quantize(MODEL, tmp_path / "model", scheme)
    run("exactness", "--quick", "--model", model)


def test_int8_weights_are_taken_as_they_are(tmp_path):
    """--quantization w8a16 of a w8a8 checkpoint changes the activations only, and says nothing of a second rounding."""
    a8 = quantize(MODEL, tmp_path / "a8", "int8-w8a8")
    done = run("score", "--model", a8, "--quantization", "w8a16", "--output", "json", *PROMPT)
    assert "second time" not in done.stderr
    want = logprobs(a8, *F32)
    mine = json.loads(done.stdout.splitlines()[0])["logprobs"][1:]
    assert max(abs(a - b) for a, b in zip(mine, want, strict=True)) < NATIVE_BOUND["int8-w8a16"] + 0.02  # and bf16 KV


def test_fp8_says_what_it_does(tmp_path):
    model = quantize(MODEL, tmp_path / "model", "fp8-block")
    assert "FP8 weights are widened to bf16" in run("score", "--model", model, *PROMPT).stderr


def test_rounding_a_second_time(tmp_path):
    model = quantize(MODEL, tmp_path / "model", "gptq")
    assert "rounded a second time to w8a8" in run("score", "--model", model, "--quantization", "w8a8", *PROMPT).stderr
    model = quantize(MODEL, tmp_path / "fp8", "fp8-block")
    done = run("score", "--model", model, "--quantization", "w4a8", *PROMPT, check=False)
    assert done.returncode == 1 and "is stored as f8_e4m3; quantization w4a8 needs a model in" in done.stderr


Q = "model.layers.0.self_attn.q_proj"


def drop(name):
    return lambda tensors: tensors.pop(name)


def put(name, dtype, array):
    return lambda tensors: tensors.__setitem__(name, (dtype, array))


def shuffled(tensors):
    dtype, index = tensors[Q + ".g_idx"]
    tensors[Q + ".g_idx"] = dtype, index[::-1].copy()


DAMAGED = [
    ("gptq", drop(Q + ".qzeros"), f"tensor {Q}.qweight needs tensor {Q}.qzeros, which is missing"),
    ("gptq", drop(Q + ".qweight"), f"tensor {Q}.qzeros: belongs to no quantised weight (gptq needs {Q}.qweight for it)"),
    ("gptq", shuffled, f"tensor {Q}.g_idx: input 0 is of group 1: inputs out of order (desc_act, actorder) are not supported"),
    ("gptq", put(Q + ".scales", "F32", np.ones((2, 127), np.float32)),
     f"tensor {Q}.scales: has shape [2, 127], expected [2, 128]"),
    ("gptq", put(Q + ".qzeros", "F32", np.ones((2, 16), np.float32)), f"tensor {Q}.qzeros: has type f32, expected i32"),
    ("gptq", put(Q + ".scales", "F16", np.full((2, 128), np.inf, np.float16)), "scale or minimum is not finite"),
    ("gptq-int8", put(Q + ".qzeros", "I32", np.zeros((2, 32), np.int32)),
     f"tensor {Q}.qweight: 8-bit weights with zero points other than 128 are not supported"),
    ("awq", put(Q + ".qweight", "I32", np.zeros((64, 15), np.int32)), f"tensor {Q}.scales: has shape [2, 128], expected [2, 120]"),
    ("packed4", put(Q + ".weight_shape", "I64", np.array([128, 2**40], np.int64)),
     f"tensor {Q}.weight_shape: expected two sizes from 1, found [128, {2**40}]"),
    ("packed4", put(Q + ".weight_shape", "I64", np.array([128, 72], np.int64)),
     f"tensor {Q}.weight_packed: has shape [128, 8], expected [128, 9]"),
    ("packed4", put(Q + ".weight_scale", "I32", np.ones((128, 2), np.int32)),
     f"tensor {Q}.weight_scale: has type i32, expected f32, f16 or bf16"),
    ("int8-w8a8", put(Q + ".weight_zero_point", "I8", np.ones((128, 1), np.int8)),
     f"tensor {Q}.weight_zero_point: zero points other than 0 are not supported"),
    ("int8-w8a8", put(Q + ".weight_scale", "F32", np.ones((2, 1), np.float32)),
     f"tensor {Q}.weight_scale: has shape [2, 1], expected one scale or [128, 1]"),
    ("int8-w8a8", put(Q + ".weight_scale", "F32", np.full((128, 1), np.nan, np.float32)), "scale or minimum is not finite"),
    ("fp8-block", put(Q + ".weight_scale_inv", "F32", np.ones((1, 2), np.float32)),
     f"tensor {Q}.weight_scale_inv: has shape [1, 2], expected [1, 1]"),
    ("fp8-block", drop(Q + ".weight_scale_inv"), f"tensor {Q}.weight needs tensor {Q}.weight_scale, which is missing"),
]


@pytest.mark.parametrize("number", range(len(DAMAGED)))
def test_damaged(number, tmp_path):
    scheme, damage, message = DAMAGED[number]
    model = quantize(MODEL, tmp_path / "model", scheme)
    tensors = read_tensors(model)
    damage(tensors)
    write_tensors(model, tensors)
    done = run("score", "--model", model, *PROMPT, check=False)
    assert done.returncode == 1 and message in done.stderr, done.stderr[-500:]
