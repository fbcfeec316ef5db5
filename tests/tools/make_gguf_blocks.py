#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/gguf_blocks: random blocks of every GGUF type and their f32 values by PyPI gguf's dequantize.

    pip install gguf==0.19.0
    python make_gguf_blocks.py ../data/gguf_blocks

TYPE.blocks holds the stored bytes, TYPE.f32 the little-endian float32 values. The first block's scales are denormal, the
second's zero, the others' any finite number. No NaN: its bits are not part of the contract.
"""
import pathlib
import sys

import gguf
import numpy as np

# Byte offsets of the f16 scales in a block.
SCALES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0],
}
PLAIN = {"F32": np.float32, "F16": np.float16, "BF16": None}
BLOCKS = 7


def finite_f16(rng, count):
    bits = rng.integers(0, 1 << 16, count).astype(np.uint16)
    return np.where((bits & 0x7C00) == 0x7C00, bits & 0xBFFF, bits)


def random_blocks(rng, name, block_bytes):
    data = rng.integers(0, 256, (BLOCKS, block_bytes)).astype(np.uint8)
    for offset in SCALES[name]:
        scales = finite_f16(rng, BLOCKS)
        scales[0] = rng.integers(1, 0x400)
        scales[1] = 0
        data[:, offset:offset + 2] = scales.view(np.uint8).reshape(BLOCKS, 2)
    return data


def random_plain(rng, name):
    bits = rng.integers(0, 1 << 32, 96, dtype=np.uint32)
    if name == "F32":
        return np.where((bits & 0x7F800000) == 0x7F800000, bits & 0xBFFFFFFF, bits).astype(np.uint32).view(np.uint8)
    half = (bits >> 16).astype(np.uint16)
    if name == "F16":
        half = finite_f16(rng, 96)
        half[:4] = [0x7C00, 0xFC00, 0x8000, 0x0001]  # infinities, -0, the smallest denormal
    else:
        half = np.where((half & 0x7F80) == 0x7F80, half & 0xBFFF, half)
        half[:4] = [0x7F80, 0xFF80, 0x8000, 0x0001]
    return half.astype(np.uint16).view(np.uint8)


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(20240607)
    for name in list(SCALES) + list(PLAIN):
        qtype = gguf.GGMLQuantizationType[name]
        data = random_plain(rng, name) if name in PLAIN else random_blocks(rng, name, gguf.GGML_QUANT_SIZES[qtype][1])
        values = gguf.dequantize(data.reshape(-1) if name in PLAIN else data, qtype)
        assert not np.isnan(values).any(), name
        data.tofile(out / f"{name.lower()}.blocks")
        np.asarray(values, dtype="<f4").tofile(out / f"{name.lower()}.f32")


if __name__ == "__main__":
    main()
