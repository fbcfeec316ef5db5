#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a model of the Qwen3-0.6B shape with random weights as a GGUF file, for benchmarks.

    pip install gguf==0.19.0
    python make_gguf.py [--layers 28] [--tokenizer DIR] TYPE OUT.gguf     TYPE: F32, BF16, Q8_0, Q4_K, ... (--help lists them)
    python make_gguf.py all DIRECTORY                                     one file of each type: DIRECTORY/qwen3-0.6b-TYPE.gguf

Weights are drawn from a normal distribution and quantised by PyPI gguf where it can. The K types and IQ4 it cannot write: they
get random blocks whose scales are finite and small enough for hidden states to stay finite. Norms are f32. Matrices all have
TYPE, the embedding (which is the head too) as well. Without --tokenizer the vocabulary is invented: it serves
benchmarks over token ids, in Lockstep and in llama.cpp. With it, DIR holds a tokenizer.json of byte-level BPE.
"""
import argparse
import json
import pathlib

import gguf
import numpy as np

HIDDEN, INTERMEDIATE, HEADS, KV_HEADS, HEAD_DIM, VOCAB, CONTEXT = 1024, 3072, 16, 8, 128, 151936, 40960
DEVIATION = 0.02
QUANTISED = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]
# A block's f16 scales as (byte offset, factor): factors of a scale and of its minimum's put the weights' mean at 0. Then the
# largest magnitude that the stored integers reach times their sub-scale.
RANDOM = {"Q2_K": ([(80, 1), (82, 1.5)], 45), "Q3_K": ([(108, 1)], 128), "Q4_K": ([(0, 1), (2, 7.5)], 945),
          "Q5_K": ([(0, 1), (2, 15.5)], 1953), "Q6_K": ([(208, 1)], 4096), "IQ4_NL": ([(0, 1)], 127), "IQ4_XS": ([(0, 1)], 4064)}
TYPES = ["F32", "F16", "BF16", *QUANTISED, *RANDOM]


def random_blocks(rng, kind, rows, columns):
    """Blocks of any bits, but scales of a size that gives weights a deviation of about DEVIATION."""
    offsets, largest = RANDOM[kind.name]
    block_elements, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    data = rng.integers(0, 256, (rows * columns // block_elements, block_bytes), dtype=np.uint8)
    sizes = rng.uniform(0.5, 1.5, len(data)) * 3 * DEVIATION / largest
    for offset, factor in offsets:
        data[:, offset:offset + 2] = (sizes * factor).astype(np.float16).view(np.uint8).reshape(-1, 2)
    return data.reshape(rows, -1)


def matrix(rng, kind, rows, columns):
    if kind.name in RANDOM:
        return random_blocks(rng, kind, rows, columns)
    return gguf.quants.quantize(rng.standard_normal((rows, columns), dtype=np.float32) * np.float32(DEVIATION), kind)


def add_tokenizer(writer, directory):
    """An invented vocabulary in which ids 0..255 are the bytes, or that of a tokenizer.json."""
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    tokens, types, merges = {}, {}, ["a b"]
    if directory:
        content = json.loads((directory / "tokenizer.json").read_text())
        tokens = {index: token for token, index in content["model"]["vocab"].items()}
        merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in content["model"]["merges"]]
        for added in content["added_tokens"]:
            tokens[added["id"]] = added["content"]
            types[added["id"]] = gguf.TokenType.CONTROL if added["special"] else gguf.TokenType.USER_DEFINED
    else:
        printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
        others = [b for b in range(256) if b not in printable]
        letters = {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}
        tokens = {**letters, 256: "ab"}
    writer.add_token_list([tokens.get(i, f"[UNUSED{i}]") for i in range(VOCAB)])
    writer.add_token_types([types.get(i, gguf.TokenType.NORMAL if i in tokens else gguf.TokenType.UNUSED) for i in range(VOCAB)])
    writer.add_token_merges(merges)
    writer.add_eos_token_id(151645)
    writer.add_add_bos_token(False)


def add_config(writer, layers):
    writer.add_name("random Qwen3-0.6B shape")
    writer.add_block_count(layers)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INTERMEDIATE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD_DIM)
    writer.add_value_length(HEAD_DIM)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_quantization_version(2)


def write(path, type_name, layers, tokenizer):
    kind = gguf.GGMLQuantizationType[type_name]
    rng = np.random.default_rng(20250117)
    writer = gguf.GGUFWriter(path, "qwen3", use_temp_file=True)
    add_config(writer, layers)
    add_tokenizer(writer, tokenizer)

    def add_matrix(name, rows, columns):
        writer.add_tensor(name, matrix(rng, kind, rows, columns), raw_dtype=kind)

    def add_norm(name, size):
        writer.add_tensor(name, rng.uniform(0.9, 1.1, size).astype(np.float32))

    add_matrix("token_embd.weight", VOCAB, HIDDEN)
    add_norm("output_norm.weight", HIDDEN)
    for i in range(layers):
        for name in ("attn_norm", "ffn_norm"):
            add_norm(f"blk.{i}.{name}.weight", HIDDEN)
        for name in ("attn_q_norm", "attn_k_norm"):
            add_norm(f"blk.{i}.{name}.weight", HEAD_DIM)
        add_matrix(f"blk.{i}.attn_q.weight", HEADS * HEAD_DIM, HIDDEN)
        add_matrix(f"blk.{i}.attn_k.weight", KV_HEADS * HEAD_DIM, HIDDEN)
        add_matrix(f"blk.{i}.attn_v.weight", KV_HEADS * HEAD_DIM, HIDDEN)
        add_matrix(f"blk.{i}.attn_output.weight", HIDDEN, HEADS * HEAD_DIM)
        add_matrix(f"blk.{i}.ffn_gate.weight", INTERMEDIATE, HIDDEN)
        add_matrix(f"blk.{i}.ffn_up.weight", INTERMEDIATE, HIDDEN)
        add_matrix(f"blk.{i}.ffn_down.weight", HIDDEN, INTERMEDIATE)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--tokenizer", type=pathlib.Path, help="directory with a tokenizer.json of Qwen3's size")
    parser.add_argument("type", choices=[*TYPES, "all"], metavar="TYPE", help=", ".join(TYPES) + ", or all")
    parser.add_argument("out", type=pathlib.Path)
    args = parser.parse_args()
    if args.type != "all":
        write(args.out, args.type, args.layers, args.tokenizer)
        return
    args.out.mkdir(parents=True, exist_ok=True)
    for name in TYPES:
        write(args.out / f"qwen3-0.6b-{name}.gguf", name, args.layers, args.tokenizer)


if __name__ == "__main__":
    main()
