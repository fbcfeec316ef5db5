#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seed corpora of tests/fuzz: OUT/NAME for each target NAME. Standard library only.

    python3 tests/tools/make_fuzz_seeds.py OUT
"""
import json
import pathlib
import shutil
import struct
import sys

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
GOLDEN = DATA / "golden"
TARGETS = ("config", "gguf", "jinja", "safetensors", "tokenizer")
F32, Q4_1, Q8_0, Q4_K = 0, 3, 8, 12
BLOCK = {F32: (1, 4), Q4_1: (32, 20), Q8_0: (32, 34), Q4_K: (256, 144)}


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def key(name, value):
    if isinstance(value, bool):
        return text(name) + struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return text(name) + struct.pack("<II", 4, value)
    if isinstance(value, float):
        return text(name) + struct.pack("<If", 6, value)
    if isinstance(value, str):
        return text(name) + struct.pack("<I", 8) + text(value)
    if not value or isinstance(value[0], str):
        return text(name) + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(text(v) for v in value)
    return text(name) + struct.pack("<IIQ", 9, 5, len(value)) + struct.pack(f"<{len(value)}i", *value)


def gguf(keys, tensors, version=3, alignment=32):
    head = struct.pack("<4sIQQ", b"GGUF", version, len(tensors), len(keys))
    head += b"".join(key(name, value) for name, value in keys.items())
    data = b""
    for name, dims, kind in tensors:
        data += b"\0" * (-len(data) % alignment)
        head += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, len(data))
        elements, size = 1, BLOCK[kind]
        for extent in dims:
            elements *= extent
        data += bytes(i % 251 for i in range(elements // size[0] * size[1]))
    return head + b"\0" * (-len(head) % alignment) + data


def model(arch, kind=F32, hidden=32, more_keys=None, more_tensors=(), **options):
    keys = {
        "general.architecture": arch, f"{arch}.block_count": 1, f"{arch}.embedding_length": hidden,
        f"{arch}.feed_forward_length": hidden, f"{arch}.attention.head_count": 2,
        f"{arch}.attention.head_count_kv": 1, f"{arch}.context_length": 64,
        f"{arch}.attention.layer_norm_rms_epsilon": 1e-5, f"{arch}.rope.freq_base": 10000.0,
        "tokenizer.ggml.tokens": ["a", "b"], "tokenizer.ggml.token_type": [1, 3], "tokenizer.ggml.eos_token_id": 1,
        **(more_keys or {}),
    }
    tensors = [
        ("token_embd.weight", [hidden, 2], kind), ("output_norm.weight", [hidden], F32),
        ("blk.0.attn_norm.weight", [hidden], F32), ("blk.0.attn_q.weight", [hidden, hidden], kind),
        ("blk.0.attn_k.weight", [hidden, hidden // 2], kind), ("blk.0.ffn_down.weight", [hidden, hidden], kind),
        *more_tensors,
    ]
    return gguf(keys, tensors, **options)


def safetensors(entries, data, metadata=None):
    header = {"__metadata__": metadata} if metadata else {}
    for name, dtype, shape, begin, end in entries:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    head = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(head)) + head + data


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def tokenizer(model, text, **steps):
    fields = {"version": "1.0", "added_tokens": [{"id": 3, "content": "<s>", "special": True}], **steps, "model": model}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\0" + text.encode()


def tokenizer_seeds():
    bpe = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "<s>": 3, "<0x0A>": 4, "\u2581": 5, "\u0120": 6},
           "merges": [["a", "b"]], "byte_fallback": True, "unk_token": "<s>", "ignore_merges": True}
    unigram = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.0], ["ab", -2.5], ["b", -3.0]]}
    splits = [{"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}|\\s+(?!\\S)"}, "behavior": "Isolated", "invert": False},
              {"type": "Digits", "individual_digits": True},
              {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]
    yield "bpe", tokenizer(bpe, "ab <s> 123\nba", normalizer={"type": "NFC"},
                           pre_tokenizer={"type": "Sequence", "pretokenizers": splits}, decoder={"type": "ByteLevel"})
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False}
    yield "metaspace", tokenizer(bpe, " ab  \u00e9", pre_tokenizer=metaspace, decoder=metaspace)
    yield "unigram", tokenizer(unigram, "abba", normalizer={"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]})
    for i, case in enumerate(lines(DATA / "tokenizer" / "cases.jsonl")):
        data = json.dumps(case["tokenizer"], ensure_ascii=False, separators=(",", ":")).encode()
        if len(data) < 8192:
            yield f"case_{i}", data


def jinja_seeds():
    for path in sorted((DATA / "jinja_idioms").glob("*.jinja")):
        yield path.stem, path.read_bytes()
    for path in (DATA / "jinja_idioms" / "semantics.jsonl", GOLDEN / "jinja" / "cases.jsonl"):
        for i, case in enumerate(lines(path)):
            yield f"{path.stem}_{i}", case["template"].encode(errors="surrogatepass")


# Tensors of one module: suffix, type, shape, bytes.
QUANTIZED = {
    "fp8": [("weight", "F8_E4M3", [2, 3], 6), ("weight_scale", "BF16", [2, 1], 4)],
    "int8": [("weight", "I8", [2, 3], 6), ("weight_scale", "F32", [], 4), ("weight_zero_point", "I8", [2, 1], 2)],
    "packed": [("weight_packed", "I32", [8, 4], 128), ("weight_scale", "F16", [8, 1], 16), ("weight_shape", "I64", [2], 16),
               ("weight_zero_point", "I32", [1, 1], 4)],
    "gptq": [("qweight", "I32", [4, 8], 128), ("qzeros", "I32", [1, 1], 4), ("scales", "F16", [1, 8], 16),
             ("g_idx", "I32", [32], 128)],
    "awq": [("qweight", "I32", [32, 1], 128), ("qzeros", "I32", [1, 1], 4), ("scales", "F16", [1, 8], 16)],
}


def seeds():
    yield from ((f"jinja/{name}", data) for name, data in jinja_seeds())
    yield from ((f"tokenizer/{name}", data) for name, data in tokenizer_seeds())
    yield "gguf/llama", model("llama", Q4_1, more_tensors=[("rope_freqs.weight", [8], F32)])
    yield "gguf/qwen2", model("qwen2", Q8_0, version=2, more_tensors=[("blk.0.attn_q.bias", [32], F32)])
    yield "gguf/qwen3", model("qwen3", more_keys={
        "qwen3.attention.key_length": 16, "qwen3.attention.value_length": 16, "qwen3.rope.scaling.type": "yarn",
        "qwen3.rope.scaling.factor": 4.0, "qwen3.rope.scaling.original_context_length": 16,
        "tokenizer.ggml.add_bos_token": False}, more_tensors=[("output.weight", [32, 2], F32)])
    yield "gguf/k_quants", gguf({"general.alignment": 64}, [("x", [256], Q4_K), ("y", [3, 2, 1, 1], F32)], alignment=64)
    yield "gguf/vocabulary", gguf({"general.architecture": "llama", "split.count": 2, "split.no": 0}, [])
    yield "safetensors/two", safetensors([("a", "F32", [2, 3], 0, 24), ("b", "BF16", [5], 24, 34)], bytes(34),
                                         {"format": "pt"})
    yield "safetensors/odd", safetensors([("s", "U8", [], 0, 1), ("e", "I64", [0, 7], 1, 1), ("f", "F8_E4M3", [3], 1, 4)],
                                         bytes(4))
    yield "safetensors/none", safetensors([], b"")
    for name, tensors in QUANTIZED.items():
        entries, at = [], 0
        for suffix, dtype, shape, size in tensors:
            entries.append((f"m.{suffix}", dtype, shape, at, at + size))
            at += size
        yield f"safetensors/{name}", safetensors(entries, bytes(at))
    small = {"model_type": "qwen3", "vocab_size": 8, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
             "num_attention_heads": 1, "head_dim": 4, "max_position_embeddings": 64, "original_max_position_embeddings": 16}
    for scaling in ({"type": "dynamic", "factor": 2}, {"type": "longrope", "short_factor": [1, 2], "long_factor": [3, 4.5]}):
        yield f"config/{scaling['type']}", json.dumps({**small, "rope_scaling": scaling}).encode()
    int8 = {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True, "dynamic": True}
    for settings in ({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]},
                     {"quant_method": "gptq", "bits": 4, "group_size": 32, "checkpoint_format": "gptq_v2"},
                     {"quant_method": "awq", "w_bit": 4, "q_group_size": -1, "version": "GEMM"},
                     {"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {
                         "g": {"weights": int8, "input_activations": int8 | {"strategy": "token"}}}}):
        yield f"config/{settings['quant_method']}", json.dumps({**small, "quantization_config": settings}).encode()
    for path in sorted(GOLDEN.glob("tiny-*/config*.json")):
        yield f"config/{path.parent.name}_{path.stem}", json.dumps(json.loads(path.read_text())).encode()


def main():
    out = pathlib.Path(sys.argv[1])
    for folder in TARGETS:
        shutil.rmtree(out / folder, ignore_errors=True)
        (out / folder).mkdir(parents=True)
    for name, data in seeds():
        (out / name).write_bytes(data)


if __name__ == "__main__":
    main()
