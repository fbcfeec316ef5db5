#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Quantises the layers of a Hugging Face model directory as other projects' writers do, for tests: plain rounding, no
calibration. Needs numpy.

    python3 tests/tools/quantize_safetensors.py MODEL OUT --scheme gptq
    python3 tests/tools/quantize_safetensors.py MODEL OUT --scheme gptq --dequantized   # the values it stands for, in f32
"""
import argparse
import json
import pathlib
import shutil
import struct

import numpy as np

DTYPES = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16, "I32": np.int32, "I64": np.int64, "I8": np.int8,
          "F8_E4M3": np.uint8}
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def bf16_round(x):
    """f32 values rounded to bf16, to nearest even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)


def bf16_bits(x):
    return (bf16_round(x).view(np.uint32) >> 16).astype(np.uint16)


def f16_round(x):
    return x.astype(np.float16).astype(np.float32)


def read_tensors(folder):
    """{name: (type, array)}; bf16 as its 16 bits."""
    raw = (pathlib.Path(folder) / "model.safetensors").read_bytes()
    size, = struct.unpack("<Q", raw[:8])
    out = {}
    for name, entry in json.loads(raw[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = (8 + size + at for at in entry["data_offsets"])
            out[name] = entry["dtype"], np.frombuffer(raw[begin:end], DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return out


def write_tensors(folder, tensors):
    header, at = {}, 0
    for name, (dtype, array) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    with open(pathlib.Path(folder) / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, array in tensors.values():
            file.write(np.ascontiguousarray(array).tobytes())


def as_f32(dtype, array):
    return (array.astype(np.uint32) << 16).view(np.float32) if dtype == "BF16" else array.astype(np.float32)


def e4m3_values():
    codes = np.arange(256)
    exponent, mantissa = codes >> 3 & 15, codes & 7
    value = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent - 10.0))
    return np.where(codes & 128, -value, value).astype(np.float32)


def to_e4m3(x):
    values = e4m3_values()
    order = np.argsort(values[:127])  # 127 is NaN
    middle = (values[order][1:] + values[order][:-1]) / 2
    return (order[np.searchsorted(middle, np.abs(x))] | np.where(np.signbit(x), 128, 0)).astype(np.uint8)


def blocks_of(n, size):
    return -(-n // size)


def spread(scales, shape, rows, columns):
    return np.repeat(np.repeat(scales, rows, 0)[:shape[0]], columns, 1)[:, :shape[1]]


def fp8(w, name, rows, columns, scale_name, scale_dtype):
    """f8_e4m3 with a scale for each block; the values are bf16."""
    n, k = w.shape
    per_tensor = not rows and not columns
    rows, columns = rows or n, columns or k
    scales = np.array([[np.abs(w[i * rows:(i + 1) * rows, j * columns:(j + 1) * columns]).max() / 448
                        for j in range(blocks_of(k, columns))] for i in range(blocks_of(n, rows))], np.float32)
    if scale_dtype == "BF16":
        scales = bf16_round(scales)
    codes = to_e4m3(np.clip(w / spread(scales, w.shape, rows, columns), -448, 448))
    stored = (scale_dtype, bf16_bits(scales) if scale_dtype == "BF16" else scales)
    if per_tensor:
        stored = stored[0], stored[1].reshape(())
    made = {name + ".weight": ("F8_E4M3", codes), name + scale_name: stored}
    if scale_name == ".weight_scale":
        made[name + ".input_scale"] = "F32", np.array(0.5, np.float32)
    return made, bf16_round(e4m3_values()[codes] * spread(scales, w.shape, rows, columns))


def int8(w, name, scale_dtype):
    """One scale for each output; the first weight becomes -128, which a rounding to 127 levels never gives."""
    scales = np.abs(w).max(1, keepdims=True) / 127
    scales = bf16_round(scales) if scale_dtype == "BF16" else scales.astype(np.float32)
    codes = np.clip(np.rint(w / scales), -127, 127).astype(np.int8)
    codes[0, 0] = -128
    stored = bf16_bits(scales) if scale_dtype == "BF16" else scales
    return {name + ".weight": ("I8", codes), name + ".weight_scale": (scale_dtype, stored)}, scales * codes.astype(np.float32)


def grouped(w, bits, group, symmetric):
    """Codes, scales (f16 values) and zero points of groups of inputs, and the values they stand for."""
    n, k = w.shape
    group = k if group == -1 else group
    parts = w.reshape(n, k // group, group)
    top = 2**bits - 1
    middle = 2 ** (bits - 1)
    if symmetric:
        scales = f16_round(np.abs(parts).max(2) / (middle - 1))
        zeros = np.full(scales.shape, middle)
    else:
        low, high = np.minimum(parts.min(2), 0), np.maximum(parts.max(2), 0)
        scales = f16_round((high - low) / top)
        zeros = np.clip(np.rint(-low / scales), 0, top).astype(int)
    codes = np.clip(np.rint(parts / scales[..., None]) + zeros[..., None], 0, top).astype(np.int64)
    if (zeros == middle).all():
        values = scales[..., None] * (codes - middle).astype(np.float32)
    else:
        minimum = f16_round(-scales * zeros.astype(np.float32))
        values = scales[..., None] * codes.astype(np.float32) + minimum[..., None]
    return codes.reshape(n, k), scales, zeros, values.reshape(n, k).astype(np.float32)


def words(codes, bits, axis, order=None):
    """Codes in 32-bit words along an axis, the first in the low bits."""
    per = 32 // bits
    codes = np.moveaxis(codes, axis, -1)
    codes = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, -codes.shape[-1] % per)])
    split = codes.reshape(*codes.shape[:-1], -1, per)[..., order or range(per)].astype(np.uint64)
    packed = (split << (np.arange(per, dtype=np.uint64) * np.uint64(bits))).sum(-1).astype(np.uint32).view(np.int32)
    return np.moveaxis(packed, -1, axis)


def packed(w, name, bits, group, symmetric):
    codes, scales, zeros, values = grouped(w, bits, group, symmetric)
    made = {name + ".weight_packed": ("I32", words(codes, bits, 1)),
            name + ".weight_scale": ("F16", scales.astype(np.float16)),
            name + ".weight_shape": ("I64", np.array(w.shape, np.int64))}
    if not symmetric:
        made[name + ".weight_zero_point"] = "I32", words(zeros, bits, 0)
    return made, values


def gptq(w, name, bits, group, symmetric, version):
    codes, scales, zeros, values = grouped(w, bits, group, symmetric)
    stored = (zeros - 1) % 2**bits if version == 1 else zeros
    size = w.shape[1] if group == -1 else group
    return {name + ".qweight": ("I32", words(codes.T, bits, 0)),
            name + ".qzeros": ("I32", words(stored.T, bits, 1)),
            name + ".scales": ("F16", scales.T.astype(np.float16)),
            name + ".g_idx": ("I32", (np.arange(w.shape[1]) // size).astype(np.int32))}, values


def awq(w, name, group):
    codes, scales, zeros, values = grouped(w, 4, group, False)
    return {name + ".qweight": ("I32", words(codes.T, 4, 1, AWQ_ORDER)),
            name + ".qzeros": ("I32", words(zeros.T, 4, 1, AWQ_ORDER)),
            name + ".scales": ("F16", scales.T.astype(np.float16))}, values


def compressed(format, weights, activations=None):
    return {"quant_method": "compressed-tensors", "format": format, "quantization_status": "compressed",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": activations,
                                          "output_activations": None}},
            "ignore": ["lm_head"], "kv_cache_scheme": None}


def weights_of(bits, kind, strategy, symmetric=True, group=None):
    return {"num_bits": bits, "type": kind, "strategy": strategy, "symmetric": symmetric, "group_size": group,
            "dynamic": False, "actorder": None, "block_structure": None}


TOKENS = {"num_bits": 8, "type": "int", "strategy": "token", "symmetric": True, "dynamic": True}
FLOAT_TOKENS = {"num_bits": 8, "type": "float", "strategy": "token", "symmetric": True, "dynamic": True}


def gptq_config(bits, group, symmetric, **more):
    return {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": False, "sym": symmetric, **more}


# name: (quantization_config, function of a weight and its module's name)
SCHEMES = {
    "fp8-block": ({"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [128, 128]},
                  lambda w, name: fp8(w, name, 128, 128, ".weight_scale_inv", "F32")),
    "fp8-tensor": ({"quant_method": "fp8", "activation_scheme": "static"},
                   lambda w, name: fp8(w, name, 0, 0, ".weight_scale", "F32")),
    "fp8-channel": (compressed("float-quantized", weights_of(8, "float", "channel"), FLOAT_TOKENS),
                    lambda w, name: fp8(w, name, 1, 0, ".weight_scale", "BF16")),
    "int8-w8a16": (compressed("int-quantized", weights_of(8, "int", "channel")), lambda w, name: int8(w, name, "BF16")),
    "int8-w8a8": (compressed("int-quantized", weights_of(8, "int", "channel"), TOKENS),
                  lambda w, name: int8(w, name, "F32")),
    "packed4": (compressed("pack-quantized", weights_of(4, "int", "group", group=32)),
                lambda w, name: packed(w, name, 4, 32, True)),
    "packed4-zeros": (compressed("pack-quantized", weights_of(4, "int", "group", False, 32)),
                      lambda w, name: packed(w, name, 4, 32, False)),
    "packed4-channel": (compressed("pack-quantized", weights_of(4, "int", "channel")),
                        lambda w, name: packed(w, name, 4, -1, True)),
    "packed8": (compressed("pack-quantized", weights_of(8, "int", "channel")),
                lambda w, name: packed(w, name, 8, -1, True)),
    "packed8-groups": (compressed("pack-quantized", weights_of(8, "int", "group", group=32)),
                       lambda w, name: packed(w, name, 8, 32, True)),
    "gptq": (gptq_config(4, 32, True), lambda w, name: gptq(w, name, 4, 32, True, 1)),
    "gptq-zeros": (gptq_config(4, -1, False, checkpoint_format="gptq"), lambda w, name: gptq(w, name, 4, -1, False, 1)),
    "gptq-v2": (gptq_config(4, 32, False, checkpoint_format="gptq_v2"), lambda w, name: gptq(w, name, 4, 32, False, 2)),
    "gptq-int8": (gptq_config(8, 32, True), lambda w, name: gptq(w, name, 8, 32, True, 1)),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"},
            lambda w, name: awq(w, name, 32)),
}


def quantize(source, out, scheme, dequantized=False):
    """Writes `source` with every layer's projection in a scheme, or the values that the scheme gives, in f32."""
    source, out = pathlib.Path(source), pathlib.Path(out)
    shutil.copytree(source, out, ignore=shutil.ignore_patterns("*.safetensors"))
    settings, make = SCHEMES[scheme]
    tensors = {}
    for name, (dtype, array) in read_tensors(source).items():
        if not name.endswith("_proj.weight"):
            tensors[name] = dtype, array
            continue
        made, values = make(as_f32(dtype, array), name.removesuffix(".weight"))
        tensors |= {name: ("F32", values)} if dequantized else made
    write_tensors(out, tensors)
    if not dequantized:
        config = json.loads((source / "config.json").read_text()) | {"quantization_config": settings}
        (out / "config.json").write_text(json.dumps(config))
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--scheme", choices=SCHEMES, required=True)
    parser.add_argument("--dequantized", action="store_true")
    args = parser.parse_args()
    quantize(args.model, args.out, args.scheme, args.dequantized)


if __name__ == "__main__":
    main()
