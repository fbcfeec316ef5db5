# SPDX-License-Identifier: Apache-2.0
"""Runs the built program from outside and reads its JSON lines."""
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("LOCKSTEP_BIN", ROOT / "build/lockstep"))
GOLDEN = ROOT / "tests/data/golden"
QWEN3_TOKENIZER = pathlib.Path(os.environ.get("LOCKSTEP_TESTDATA", ROOT / "build/testdata")) / "qwen3-tokenizer"
SMOLLM2 = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
TINY_MODELS = ["tiny-llama", "tiny-qwen2", "tiny-qwen3", "tiny-qwen3-untied", "tiny-qwen3-yarn"]
F32 = ["--weights", "f32", "--kv-cache-dtype", "f32"]


def run(*args, stdin=None, isa=None, check=True):
    """The finished process of `lockstep ARGS`; an error of the program fails the test with what it printed."""
    env = dict(os.environ)
    env.pop("LOCKSTEP_ISA", None)
    if isa:
        env["LOCKSTEP_ISA"] = isa
    done = subprocess.run([str(BINARY), *map(str, args)], input=stdin, capture_output=True, text=True, encoding="utf-8",
                          errors="replace", env=env, timeout=900)
    assert not check or done.returncode == 0, f"lockstep {' '.join(map(str, args))[:300]}: {done.stderr[-800:]}"
    return done


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def ask(command, *args, lines):
    """Answers of a JSON-lines command (tokenize, render), one for each of `lines`."""
    text = "".join(json.dumps(line) + "\n" for line in lines)
    answers = json_lines(run(command, *args, stdin=text).stdout)
    assert len(answers) == len(lines)
    return answers


def generate(model, prompts, *args, isa=None, max_tokens=32):
    """Results of `generate` for prompts of ids, run together, greedy."""
    ids = [word for prompt in prompts for word in ("--prompt-ids", ",".join(map(str, prompt)))]
    done = run("generate", "--model", model, "--max-tokens", max_tokens, "--ignore-eos", "--output", "json", *args, *ids,
               isa=isa)
    results = json_lines(done.stdout)
    assert [r["index"] for r in results] == list(range(len(prompts)))
    return results


def score(model, *args, isa=None):
    """Lines of `score`, the total last."""
    return json_lines(run("score", "--model", model, "--output", "json", *args, isa=isa).stdout)


def available_isas():
    """The instruction sets that this machine has, the reference included: the others fail loudly."""
    return [isa for isa in ("ref", "avx2", "avx512", "avx512vnni", "avx512bf16")
            if run("inspect", "--model", GOLDEN / "tiny-llama", isa=isa, check=False).returncode == 0]


def cases(path):
    with open(GOLDEN / path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]
