#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a tiny Qwen3 model of random blocks as GGUF, typed as published files are. Standard library only.

    python3 tests/tools/make_tiny_gguf.py --type q4_k_m OUT.gguf

Codes are random bytes; the f16 scales are chosen so that weights have a standard deviation of about 1 / sqrt(k), minimums so
that they centre. The tokenizer is a byte-level vocabulary without merges. Types: every GGUF block type by name (its embedding too), f16, f32,
and the mixtures q2_k_m, q3_k_m, q4_k_m, q5_k_m whose embedding, value and down projections have another type.
"""
import argparse
import random
import struct

from make_fuzz_seeds import key, text

# Name: (number in ggml, elements of a block, bytes, offset of f16 d, of f16 m or None, rms of a weight for d = 1, m / d).
TYPES = {
    "f32": (0, 1, 4), "f16": (1, 1, 2),
    "q4_0": (2, 32, 18, 0, None, 4.6, 0), "q4_1": (3, 32, 20, 0, 2, 4.6, -7.5), "q5_0": (6, 32, 22, 0, None, 9.2, 0),
    "q5_1": (7, 32, 24, 0, 2, 9.2, -15.5), "q8_0": (8, 32, 34, 0, None, 74, 0), "q2_k": (10, 256, 84, 80, 82, 14, 1.5),
    "q3_k": (11, 256, 110, 108, None, 42, 0), "q4_k": (12, 256, 144, 0, 2, 230, 7.5), "q5_k": (13, 256, 176, 0, 2, 470, 15.5),
    "q6_k": (14, 256, 210, 208, None, 1360, 0), "iq4_nl": (20, 32, 18, 0, None, 71, 0),
    "iq4_xs": (23, 256, 136, 0, None, 1300, 0),
}
MIXTURES = {"q2_k_m": ("q2_k", "q3_k"), "q3_k_m": ("q3_k", "q5_k"), "q4_k_m": ("q4_k", "q6_k"), "q5_k_m": ("q5_k", "q6_k")}
# layers, hidden, heads, kv heads, head_dim, intermediate, vocabulary
SHAPE = (2, 256, 4, 2, 64, 512, 384)


def row_of(name, elements, rng):
    """One row of a tensor."""
    kind = TYPES[name]
    if kind[1] == 1:
        return struct.pack(f"<{elements}{'f' if name == 'f32' else 'e'}", *(rng.gauss(0, elements ** -0.5) for _ in range(elements)))
    _, block, size, d_at, m_at, rms, m_per_d = kind
    out = bytearray(rng.randbytes(elements // block * size))
    for start in range(0, len(out), size):
        d = elements ** -0.5 / rms * rng.uniform(0.5, 1.5)
        struct.pack_into("<e", out, start + d_at, d)
        if m_at is not None:
            struct.pack_into("<e", out, start + m_at, d * m_per_d)
    return bytes(out)


def tensor_data(name, dims, rng):
    rows = 1 if len(dims) == 1 else dims[1]
    return b"".join(row_of(name, dims[0], rng) for _ in range(rows))


def vocabulary(size):
    """The 256 byte symbols of GPT-2's encoding, then fillers and two control tokens."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [b for b in range(256) if b not in plain]
    tokens = [chr(b) for b in plain] + [chr(256 + i) for i in range(len(other))]
    tokens += [f"filler{i}" for i in range(size - 258)] + ["<|endoftext|>", "<|im_end|>"]
    return tokens, [1] * (size - 2) + [3, 3]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--type", required=True, choices=[*TYPES, *MIXTURES])
    parser.add_argument("out")
    args = parser.parse_args()
    layers, hidden, heads, kv_heads, dim, inner, vocab = SHAPE
    main_type, other_type = MIXTURES.get(args.type, (args.type, args.type))
    tokens, token_types = vocabulary(vocab)
    keys = {
        "general.architecture": "qwen3", "general.name": f"random tiny {args.type}", "qwen3.block_count": layers,
        "qwen3.embedding_length": hidden, "qwen3.feed_forward_length": inner, "qwen3.attention.head_count": heads,
        "qwen3.attention.head_count_kv": kv_heads, "qwen3.attention.key_length": dim, "qwen3.attention.value_length": dim,
        "qwen3.context_length": 40960, "qwen3.attention.layer_norm_rms_epsilon": 1e-6, "qwen3.rope.freq_base": 1e6,
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": token_types, "tokenizer.ggml.merges": [], "tokenizer.ggml.eos_token_id": vocab - 1,
    }
    tensors = [("token_embd.weight", (hidden, vocab), other_type), ("output_norm.weight", (hidden,), "f32")]
    for i in range(layers):
        blk = f"blk.{i}."
        tensors += [(blk + name, (extent,), "f32") for name, extent in
                    (("attn_norm.weight", hidden), ("ffn_norm.weight", hidden), ("attn_q_norm.weight", dim),
                     ("attn_k_norm.weight", dim))]
        tensors += [(blk + "attn_q.weight", (hidden, heads * dim), main_type), (blk + "attn_k.weight", (hidden, kv_heads * dim), main_type),
                    (blk + "attn_v.weight", (hidden, kv_heads * dim), other_type), (blk + "attn_output.weight", (heads * dim, hidden), main_type),
                    (blk + "ffn_gate.weight", (hidden, inner), main_type), (blk + "ffn_up.weight", (hidden, inner), main_type),
                    (blk + "ffn_down.weight", (inner, hidden), other_type)]
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys)) + b"".join(key(n, v) for n, v in keys.items())
    offset = 0
    sizes = []
    for name, dims, kind in tensors:
        number, block, size = TYPES[kind][:3]
        head += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, number, offset)
        elements = dims[0] * (dims[1] if len(dims) > 1 else 1)
        sizes.append(elements // block * size)
        offset += sizes[-1] + -sizes[-1] % 32
    rng = random.Random(5)
    with open(args.out, "wb") as out:
        out.write(head + b"\0" * (-len(head) % 32))
        for (name, dims, kind), size in zip(tensors, sizes):
            data = struct.pack(f"<{dims[0]}f", *(rng.uniform(0.8, 1.2) for _ in range(dims[0]))) if len(dims) == 1 else tensor_data(kind, dims, rng)
            assert len(data) == size, name
            out.write(data + b"\0" * (-size % 32))


if __name__ == "__main__":
    main()
