#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a Hugging Face model directory (config.json, model.safetensors) with random bf16 weights of a given shape, for
tests that need a shape and not a language. Needs numpy. The same seed gives the same bytes.

    python3 tests/tools/make_random_model.py OUT --preset qwen3-14b --layers 2 --vocab 4096
"""
import argparse
import json
import pathlib
import struct

import numpy as np

PRESETS = {
    "qwen3-0.6b": dict(hidden=1024, intermediate=3072, layers=28, heads=16, kv_heads=8, head_dim=128, tied=True),
    "qwen3-14b": dict(hidden=5120, intermediate=17408, layers=40, heads=40, kv_heads=8, head_dim=128, tied=False),
}
ARCHITECTURES = {"qwen3": "Qwen3ForCausalLM", "qwen2": "Qwen2ForCausalLM", "llama": "LlamaForCausalLM"}
PIECE = 1 << 22


def tensors(arch, hidden, intermediate, layers, heads, kv_heads, head_dim, tied, vocab):
    """Names and shapes in the order of the file."""
    yield "model.embed_tokens.weight", (vocab, hidden)
    yield "model.norm.weight", (hidden,)
    if not tied:
        yield "lm_head.weight", (vocab, hidden)
    for i in range(layers):
        at = f"model.layers.{i}."
        yield at + "input_layernorm.weight", (hidden,)
        yield at + "post_attention_layernorm.weight", (hidden,)
        for name, rows in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
            yield f"{at}self_attn.{name}_proj.weight", (rows * head_dim, hidden)
            if arch == "qwen2":
                yield f"{at}self_attn.{name}_proj.bias", (rows * head_dim,)
        yield at + "self_attn.o_proj.weight", (hidden, heads * head_dim)
        if arch == "qwen3":
            yield at + "self_attn.q_norm.weight", (head_dim,)
            yield at + "self_attn.k_norm.weight", (head_dim,)
        yield at + "mlp.gate_proj.weight", (intermediate, hidden)
        yield at + "mlp.up_proj.weight", (intermediate, hidden)
        yield at + "mlp.down_proj.weight", (hidden, intermediate)


def to_bf16(values):
    return ((values.view(np.uint32) + 0x8000) >> 16).astype(np.uint16)


def write_model(out, *, arch="qwen3", vocab=4096, seed=0, max_position=4096, rope=None, **shape):
    """`shape`: hidden, intermediate, layers, heads, kv_heads, head_dim, tied. Returns the directory."""
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    listed = list(tensors(arch, vocab=vocab, **shape))
    header, at = {}, 0
    for name, dims in listed:
        size = 2 * int(np.prod(dims))
        header[name] = {"dtype": "BF16", "shape": list(dims), "data_offsets": [at, at + size]}
        at += size
    head = json.dumps(header).encode()
    rng = np.random.default_rng(seed)
    # Normal values are slow to draw: large matrices take a pool of them from a random place each.
    pool = to_bf16(rng.standard_normal(PIECE, dtype=np.float32) * np.float32(1.2 / np.sqrt(shape["hidden"])))
    with open(out / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        for name, dims in listed:
            left = int(np.prod(dims))
            if len(dims) == 1:  # a norm's weights lie about 1, a bias about 0
                middle = np.float32(0.0 if name.endswith("bias") else 1.0)
                to_bf16(middle + rng.standard_normal(left, dtype=np.float32) * np.float32(0.1)).tofile(file)
                continue
            while left:
                taken = np.roll(pool, int(rng.integers(PIECE)))[:left]
                taken.tofile(file)
                left -= taken.size
    config = {"architectures": [ARCHITECTURES[arch]], "model_type": arch, "hidden_act": "silu", "hidden_size": shape["hidden"],
              "intermediate_size": shape["intermediate"], "num_hidden_layers": shape["layers"],
              "num_attention_heads": shape["heads"], "num_key_value_heads": shape["kv_heads"], "head_dim": shape["head_dim"],
              "max_position_embeddings": max_position, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
              "tie_word_embeddings": shape["tied"], "torch_dtype": "bfloat16", "vocab_size": vocab}
    if rope:
        config["rope_scaling"] = rope
    (out / "config.json").write_text(json.dumps(config, indent=1))
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--preset", choices=PRESETS, default="qwen3-0.6b")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--vocab", type=int, default=4096)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    shape = dict(PRESETS[args.preset])
    shape["layers"] = args.layers or shape["layers"]
    print(write_model(args.out, vocab=args.vocab, seed=args.seed, **shape))


if __name__ == "__main__":
    main()
