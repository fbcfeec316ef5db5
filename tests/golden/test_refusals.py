# SPDX-License-Identifier: Apache-2.0
"""Every message that docs/formats.md quotes, from a file that earns it: the program exits with it, and the page has it."""
import json
import re
import shutil
import sys

import pytest
from lockstep import GOLDEN, ROOT, run

sys.path.insert(0, str(ROOT / "tests/tools"))
from make_fuzz_seeds import gguf, model, tokenizer  # noqa: E402

PAGE = (ROOT / "docs/formats.md").read_text()

INT8 = {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True}


def quantized(method, **settings):
    return {"quantization_config": {"quant_method": method, **settings}}


def compressed(weights, format="int-quantized", activations=None, **settings):
    groups = {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": activations}}
    return quantized("compressed-tensors", **{"format": format, "config_groups": groups, **settings})


QUANTIZED = {
    "quantization_config: checkpoints quantised with bitsandbytes are not supported, only compressed-tensors, fp8, gptq and awq":
        quantized("bitsandbytes", load_in_4bit=True),
    'quantization_config.fmt: only e4m3 is supported, found "e5m2"': quantized("fp8", fmt="e5m2"),
    "quantization_config.bits: gptq with 4 or 8 bits is supported, found 3": quantized("gptq", bits=3, group_size=32),
    "quantization_config.group_size: only -1 and multiples of 32 are supported, found 16":
        quantized("awq", bits=4, group_size=16),
    'quantization_config.checkpoint_format: gptq and gptq_v2 are supported, found "marlin"':
        quantized("gptq", bits=4, group_size=32, checkpoint_format="marlin"),
    "quantization_config.dynamic: settings of their own for some modules are not supported":
        quantized("gptq", bits=4, group_size=32, dynamic={"-:.*mlp": {}}),
    'quantization_config.version: only gemm is supported, found "gemv"':
        quantized("awq", w_bit=4, q_group_size=32, version="gemv"),
    "weights: int weights stored as int8 are supported with 8 bits, symmetric, per channel or tensor; found 8 bits, "
    "not symmetric, per channel": compressed(INT8 | {"symmetric": False}),
    "input_activations: only dynamic symmetric int8 per token is supported, found static symmetric int8 per tensor":
        compressed(INT8, activations=INT8 | {"strategy": "tensor"}),
    "weights: packed weights are supported as int with 4 bits, or 8 symmetric bits, per group or channel; found int with 2 "
    "symmetric bits per group": compressed(INT8 | {"num_bits": 2, "strategy": "group", "group_size": 32}, "pack-quantized"),
    "input_activations: quantised activations beside packed weights are not supported":
        compressed(INT8 | {"num_bits": 4}, "pack-quantized", INT8),
    'quantization_config.format: int-quantized, float-quantized and pack-quantized are supported, found '
    '"nvfp4-pack-quantized" with float of 4 bits': compressed(INT8 | {"num_bits": 4, "type": "float"}, "nvfp4-pack-quantized"),
    "quantization_config.kv_cache_scheme: a quantised KV cache is not supported": compressed(INT8, kv_cache_scheme=INT8),
    "quantization_config.config_groups: expected one group of modules, found 2":
        compressed(INT8, config_groups={"a": {}, "b": {}}),
    'quantization_config.sparsity_config: sparse weights are not supported, found "sparse-24-bitmask"':
        compressed(INT8, sparsity_config={"format": "sparse-24-bitmask"}),
}

CONFIGS = QUANTIZED | {  # fields of a Qwen3's config.json; None takes one away
    "Qwen3MoeForCausalLM is not supported": {"architectures": ["Qwen3MoeForCausalLM"]},
    '"gemma3" is not supported (supported: qwen3, qwen2, llama)': {"architectures": None, "model_type": "gemma3"},
    "use_sliding_window: layers with a sliding window are not supported":
        {"layer_types": None, "use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1},
    "layer_types: only full_attention is supported, found sliding_attention":
        {"layer_types": ["full_attention", "full_attention", "sliding_attention"]},
    'hidden_act: only silu is supported, found "gelu"': {"hidden_act": "gelu"},
    "mlp_bias: biases in the feed-forward layers are not supported": {"mlp_bias": True},
    'rope type "mrope" is not supported (supported: default, linear, llama3, yarn, dynamic, longrope)':
        {"rope_parameters": {"rope_type": "mrope", "rope_theta": 10000.0}},
    "partial_rotary_factor: expected 1, found 0.5": {"partial_rotary_factor": 0.5},
    "mrope_section: multimodal rope is not supported":
        {"rope_parameters": {"rope_type": "default", "mrope_section": [1, 2], "rope_theta": 10000.0}},
    "rope per layer type is not supported": {"rope_parameters": {"full_attention": {"rope_theta": 10000.0}}},
}


def llama(**more_keys):
    return model("llama", more_keys={f"llama.{name.replace('__', '.')}": value for name, value in more_keys.items()})


GGUFS = {
    'general.architecture: "gemma3" is not supported (supported: qwen3, qwen2, llama)': model("gemma3"),
    "expert_count: mixture-of-experts models are not supported": llama(expert_count=8),
    "expected 2 or 3, found 1": model("llama", version=1),
    "big-endian": model("llama", version=3 << 24),
    "tensor t: IQ2_XXS (type 16)": gguf({"general.architecture": "llama"}, [("t", [256], 12)]).replace(
        (12).to_bytes(4, "little") + bytes(8), (16).to_bytes(4, "little") + bytes(8)),
    "attention.value_length 32 differs from key_length 64": llama(attention__key_length=64, attention__value_length=32),
    'rope.scaling.type: "su" is not supported (supported: none, linear, yarn, longrope)':
        llama(rope__scaling__type="su", rope__scaling__factor=2.0),
    "rope.dimension_count: expected the head's 16, found 8": llama(rope__dimension_count=8),
    "rope.scaling: yarn with its own attention factor is not supported":
        llama(rope__scaling__type="yarn", rope__scaling__factor=2.0, rope__scaling__attn_factor=0.5),
}

BPE = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}
TOKENIZERS = {
    '"WordPiece": a model that Lockstep does not have': dict(model={"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "a"}),
    '"BertNormalizer": a normalizer that Lockstep does not have': dict(model=BPE, normalizer={"type": "BertNormalizer"}),
    '"BertPreTokenizer": a pre-tokenizer that Lockstep does not have':
        dict(model=BPE, pre_tokenizer={"type": "BertPreTokenizer"}),
    '"CTC": a decoder that Lockstep does not have': dict(model=BPE, decoder={"type": "CTC", "pad_token": "a"}),
}
GGUF_TOKENIZERS = {
    'tokenizer.ggml.pre is "hunyuan", supported are default, ':
        {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "hunyuan", "tokenizer.ggml.merges": ["a b"]},
    'tokenizer.ggml.model is "bert", supported are gpt2 and llama': {"tokenizer.ggml.model": "bert"},
}
PICKLE = "weights in PyTorch's pickle format (pytorch_model.bin) are not read"


def check(done, message):
    assert message in PAGE
    assert done.returncode == 1 and message in done.stderr, done.stderr[-600:]


@pytest.mark.parametrize("message", CONFIGS)
def test_config(message, tmp_path):
    folder = shutil.copytree(GOLDEN / "tiny-qwen3", tmp_path / "model")
    config = json.loads((folder / "config.json").read_text()) | CONFIGS[message]
    (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not None}))
    check(run("inspect", "--model", folder, check=False), message)


@pytest.mark.parametrize("message", GGUFS)
def test_gguf(message, tmp_path):
    (tmp_path / "m.gguf").write_bytes(GGUFS[message])
    check(run("inspect", "--model", tmp_path / "m.gguf", check=False), message)


@pytest.mark.parametrize("message", TOKENIZERS)
def test_tokenizer(message, tmp_path):
    steps = {"decoder": {"type": "Fuse"}} | TOKENIZERS[message]
    (tmp_path / "tokenizer.json").write_bytes(tokenizer(steps.pop("model"), "", **steps).split(b"\0")[0])
    check(run("tokenize", "--tokenizer", tmp_path, check=False), message)


@pytest.mark.parametrize("message", GGUF_TOKENIZERS)
def test_gguf_tokenizer(message, tmp_path):
    (tmp_path / "m.gguf").write_bytes(model("llama", more_keys=GGUF_TOKENIZERS[message]))
    check(run("tokenize", "--tokenizer", tmp_path / "m.gguf", check=False), message)


def test_pickle(tmp_path):
    shutil.copy(GOLDEN / "tiny-qwen3/config.json", tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"PK\3\4")
    check(run("score", "--model", tmp_path, "--prompt-ids", "1,2", check=False), PICKLE)


def test_every_quoted_message_has_a_test():
    """In the tables whose second column is `message`, of the sections that this file owns."""
    quoted = set()
    for table in re.findall(r"\| file \| message \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGE):
        quoted |= set(re.findall(r"\| `(.*)` \|$", table, re.M))
    assert quoted == CONFIGS.keys() | GGUFS.keys() | TOKENIZERS.keys() | GGUF_TOKENIZERS.keys() | {PICKLE}
