#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Log-probabilities of random models beside those of Hugging Face transformers in f32, for the shapes and kinds of rope
that have no golden values. By hand, not in CI: PyPI's torch is 3 GB.

    python3 -m venv V && V/bin/pip install torch transformers
    V/bin/python tests/tools/compare_transformers.py [--lockstep build/lockstep] [--only NAME]...

For each case the largest absolute difference of a token's log-probability; exit status 1 where one exceeds its bound.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers

from make_random_model import PRESETS, write_model
from shapes import ROPES, SHAPES, TINY, ids_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
# One head, so that 32,768 positions stay cheap; rope as published models have it.
LONG = dict(arch="qwen3", hidden=32, intermediate=32, layers=2, heads=2, kv_heads=1, head_dim=32, tied=True, vocab=256)
LONG_ROPES = {
    "yarn": (32768, {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096}),
    "dynamic": (8192, {"rope_type": "dynamic", "factor": 4.0}),
    "longrope": (32768, {"rope_type": "longrope", "short_factor": [1 + i / 16 for i in range(16)],
                         "long_factor": [1 + i for i in range(16)], "original_max_position_embeddings": 4096}),
    "linear": (32768, {"rope_type": "linear", "factor": 8.0}),
    "llama3": (32768, {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                       "original_max_position_embeddings": 4096}),
}


def cases():
    """name, how to write the model, ids, served context (0 = the model's), bound of the difference."""
    for name, shape in SHAPES.items():
        yield name, dict(shape), ids_of(70), 0, 2e-4
    for name, rope in ROPES.items():
        # transformers scales dynamic rope by the length of the sequence, we by the served context: let them be equal.
        yield f"{name}, 64 positions", dict(TINY, max_position=64, rope=rope), ids_of(64), 64, 2e-4
    yield "dynamic, 200 of 64 positions", dict(TINY, max_position=64, rope=ROPES["dynamic"]), ids_of(200), 200, 2e-4
    for name, (longest, rope) in LONG_ROPES.items():
        yield f"{name}, 32768 positions", dict(LONG, max_position=longest, rope=rope), ids_of(32768, 256), 32768, 1e-3
    shape = dict(PRESETS["qwen3-14b"], layers=2)
    yield "qwen3-14b, 2 layers", dict(shape, vocab=4096), ids_of(64), 0, 5e-4


def theirs(folder, ids):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
    with torch.inference_mode():
        logits = model(torch.tensor([ids]), use_cache=False).logits[0, :-1].double()
    return torch.log_softmax(logits, -1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0]


def ours(lockstep, folder, ids, context):
    args = [lockstep, "--log-level", "error", "score", "--model", folder, "--output", "json", "--kv-cache-dtype", "f32",
            "--prompt-ids", ",".join(map(str, ids))]
    if context:
        args += ["--max-model-len", str(context)]
    done = subprocess.run(list(map(str, args)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return torch.tensor(json.loads(done.stdout.splitlines()[0])["logprobs"][1:], dtype=torch.float64)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lockstep", default=ROOT / "build/lockstep")
    parser.add_argument("--only", action="append", help="cases whose name holds this")
    args = parser.parse_args()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    failed = False
    for name, shape, ids, context, bound in cases():
        if args.only and not any(part in name for part in args.only):
            continue
        with tempfile.TemporaryDirectory() as folder:
            write_model(folder, seed=3, **shape)
            difference = (theirs(folder, ids) - ours(args.lockstep, folder, ids, context)).abs().max().item()
        failed |= not difference < bound
        print(f"{name:32} {len(ids):6} tokens, largest difference {difference:.1e}{'' if difference < bound else ': TOO LARGE'}",
              flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
