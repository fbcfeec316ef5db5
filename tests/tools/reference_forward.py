# SPDX-License-Identifier: Apache-2.0
"""A decoder's forward pass in numpy and f32, written from the models' papers and configs: what tests compare shapes
with that have no golden values. tests/golden/test_shapes.py first has it reproduce the golden values of every tiny model.
"""
import json
import math
import mmap
import pathlib
import struct

import numpy as np


class Weights:
    """The tensors of all *.safetensors of a directory, made f32 when asked for."""

    def __init__(self, folder):
        self.entries = {}
        for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
            with open(path, "rb") as file:
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            size = struct.unpack("<Q", data[:8])[0]
            for name, entry in json.loads(data[8:8 + size]).items():
                self.entries[name] = (data, 8 + size, entry)

    def __contains__(self, name):
        return name in self.entries

    def __getitem__(self, name):
        data, start, entry = self.entries[name]
        begin, end = entry["data_offsets"]
        kind = {"BF16": np.uint16, "F16": np.float16, "F32": np.float32}[entry["dtype"]]
        raw = np.frombuffer(data, kind, (end - begin) // np.dtype(kind).itemsize, start + begin)
        if kind == np.uint16:
            raw = (raw.astype(np.uint32) << 16).view(np.float32)
        return raw.astype(np.float32).reshape(entry["shape"])


def rope_of(config, dim, context):
    """Inverse frequencies in double precision and the factor of cos and sin, for a served context."""
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    theta = config.get("rope_theta") or scaling["rope_theta"]
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    longest = config["max_position_embeddings"]
    original = config.get("original_max_position_embeddings") or scaling.get("original_max_position_embeddings") or longest
    factor = scaling.get("factor")
    index = np.arange(0, dim, 2)
    if kind == "dynamic":
        theta *= (factor * max(context, longest) / longest - (factor - 1)) ** (dim / (dim - 2))
    plain = theta ** (-index / dim)
    if kind in ("default", "dynamic"):
        return plain, 1.0
    if kind == "linear":
        return plain / factor, 1.0
    if kind == "longrope":
        factor = factor or longest / original
        scale = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
        chosen = scaling["long_factor" if context > original else "short_factor"]
        return plain / np.array(chosen), scaling.get("attention_factor") or scale
    if kind == "llama3":
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        turns = original * plain / (2 * math.pi)
        smooth = np.clip((turns - low) / (high - low), 0, 1)
        return (1 - smooth) * plain / factor + smooth * plain, 1.0
    assert kind == "yarn", kind

    def dimension(turns):
        return dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = max(math.floor(dimension(32)), 0), min(math.ceil(dimension(1)), dim - 1)
    ramp = np.clip((index / 2 - low) / (high - low or 0.001), 0, 1)
    return plain / factor * ramp + plain * (1 - ramp), 0.1 * math.log(factor) + 1


def norm(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True, dtype=np.float64).astype(np.float32) + np.float32(eps)) * weight


def rotate(x, cos, sin):
    """x [T, heads, dim]; halves are the pairs."""
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def attention(q, k, v):
    """q [T, heads, dim], k and v [T, kv_heads, dim]; causal."""
    tokens, heads, dim = q.shape
    group = heads // k.shape[1]
    mask = np.triu(np.full((tokens, tokens), -np.inf, np.float32), 1)
    out = np.empty_like(q)
    for h in range(heads):
        scores = q[:, h] @ k[:, h // group].T / np.float32(math.sqrt(dim)) + mask
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        out[:, h] = weights / weights.sum(axis=1, keepdims=True) @ v[:, h // group]
    return out.reshape(tokens, heads * dim)


def logprobs(folder, ids, context=0, rows=None):
    """log-softmax [rows, vocab] after each of `ids` (`rows`: only the last so many), in f32. `context`: what is served,
    0 = the model's own."""
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    weights = Weights(folder)
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    dim = config.get("head_dim") or config["hidden_size"] // heads
    eps = config["rms_norm_eps"]
    inverse, scale = rope_of(config, dim, context or config["max_position_embeddings"])
    angles = np.arange(len(ids))[:, None, None] * inverse[None, None, :]
    cos, sin = (np.cos(angles) * scale).astype(np.float32), (np.sin(angles) * scale).astype(np.float32)

    def project(x, name):
        y = x @ weights[name + ".weight"].T
        return y + weights[name + ".bias"] if name + ".bias" in weights else y

    embedding = weights["model.embed_tokens.weight"]
    x = embedding[np.array(ids)]
    for i in range(config["num_hidden_layers"]):
        at = f"model.layers.{i}."
        y = norm(x, weights[at + "input_layernorm.weight"], eps)
        q, k, v = (project(y, f"{at}self_attn.{name}_proj").reshape(len(ids), -1, dim) for name in "qkv")
        if at + "self_attn.q_norm.weight" in weights:
            q, k = (norm(z, weights[f"{at}self_attn.{name}_norm.weight"], eps) for z, name in ((q, "q"), (k, "k")))
        x = x + project(attention(rotate(q, cos, sin), rotate(k, cos, sin), v), at + "self_attn.o_proj")
        y = norm(x, weights[at + "post_attention_layernorm.weight"], eps)
        gate = project(y, at + "mlp.gate_proj")
        x = x + project(gate / (1 + np.exp(-gate)) * project(y, at + "mlp.up_proj"), at + "mlp.down_proj")
    x = norm(x, weights["model.norm.weight"], eps)[-rows if rows else None:]
    logits = x @ (weights["lm_head.weight"] if "lm_head.weight" in weights else embedding).T
    logits = logits - logits.max(axis=1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True, dtype=np.float64)).astype(np.float32)
