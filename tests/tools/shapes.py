# SPDX-License-Identifier: Apache-2.0
"""Shapes of models and kinds of rope without golden values of their own, for make_random_model.write_model."""
SMALL = dict(intermediate=160, layers=2, tied=True)
SHAPES = {
    "9-3-heads-of-64": dict(arch="llama", hidden=576, heads=9, kv_heads=3, head_dim=64, **SMALL),
    "14-2-heads": dict(arch="qwen2", hidden=112, heads=14, kv_heads=2, head_dim=8, **SMALL),
    "14-2-heads-of-64": dict(arch="qwen2", hidden=896, heads=14, kv_heads=2, head_dim=64, **SMALL),
    "hidden-48": dict(arch="qwen3", hidden=48, heads=3, kv_heads=1, head_dim=16, **SMALL),
    "40-8-heads": dict(arch="qwen3", hidden=80, heads=40, kv_heads=8, head_dim=32, **{**SMALL, "tied": False}),
}
TINY = dict(arch="qwen3", hidden=64, heads=2, kv_heads=1, head_dim=32, **SMALL)
# For TINY with max_position=64.
ROPES = {
    "dynamic": {"type": "dynamic", "factor": 4.0},
    "longrope": {"type": "longrope", "short_factor": [1 + i / 16 for i in range(16)],
                 "long_factor": [1 + i for i in range(16)], "original_max_position_embeddings": 48},
    "yarn": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
    "linear": {"type": "linear", "factor": 4.0},
}


def ids_of(count, vocab=4096):
    return [(7 + 131 * i + 17 * i * i) % vocab for i in range(count)]
