# SPDX-License-Identifier: Apache-2.0
"""What the tokenizers give that GGUF files only name (tokenizer.ggml.pre, tokenizer.ggml.model "llama").

Byte-level: Hugging Face's tokenizers 0.23.3 with the pre-tokeniser that each name stands for, one trained vocabulary.
"default" and the letters of "deepseek-llm" have no shorter source than src/tokenizer/gguf_pre.cpp: they are read from there,
so for these two the oracle tests the splitting and not the patterns. "llama": sentencepiece 0.2, trained here.
usage: python make_gguf_cases.py > gguf_cases.jsonl      (PyPI packages tokenizers and sentencepiece)
First line: {"tokens", "merges"}. Then {"names", "cases": [{"text", "ids"}]}, and {"llama": {"tokens", "scores", "types"},
"add_space_prefix", "cases"}.
"""
import contextlib
import io
import json
import pathlib
import re

import sentencepiece
from tokenizers import normalizers, pre_tokenizers

with contextlib.redirect_stdout(io.StringIO()):
    import make_cases as base

PROBES = base.PROBES[:17] + [base.text(base.RNG.randint(2, 9)) for _ in range(24)] + [base.text(30), " \n", "x  \n\n ", "123456789"]
TEKKEN = base.O200K.replace(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace(r"\p{N}{1,3}", r"\p{N}")
SOURCE = (pathlib.Path(__file__).resolve().parents[3] / "src/tokenizer/gguf_pre.cpp").read_text()


def from_source(name):
    """The raw strings of an array or constant, its \\x{HEX} as characters."""
    body = re.search(name + r"\b.*?=(.*?);\n", SOURCE, re.S).group(1)
    return [re.sub(r"\\x\{(\w+)\}", lambda m: chr(int(m.group(1), 16)), part) for part in re.findall(r'R"\((.*?)\)"', body, re.S)]


split = base.split
digits = pre_tokenizers.Digits(individual_digits=True)
CJK = "[一-龥ࠀ-一가-\ud7ff]+"
KINDS = [
    (["gpt-2", "phi-2", "olmo", "mpt", "jais"], base.byte_level(use_regex=True)),
    (["smollm", "starcoder", "refact", "command-r", "codeshell"], base.byte_level(digits, use_regex=True)),
    (["qwen2"], base.byte_level(split(base.QWEN2), normalizer=normalizers.NFC())),
    (["deepseek-r1-qwen", "stablelm2"], base.byte_level(split(base.QWEN2))),
    (["llama3", "llama-v3", "llama-bpe", "falcon3", "lfm2"], base.byte_level(split(base.LLAMA3), ignore_merges=True)),
    (["dbrx", "smaug-bpe", "glm4", "chatglm-bpe"], base.byte_level(split(base.LLAMA3))),
    (["tekken"], base.byte_level(split(TEKKEN), ignore_merges=True)),
    (["gpt-4o", "llama4"], base.byte_level(split(base.O200K))),
    (["deepseek-v3"], base.byte_level(split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(base.DEEPSEEK))),
    (["deepseek-llm"], base.byte_level(split(r"[\r\n]"), split("".join(from_source("kDeepSeekLetters"))),
                                       split(r"\s?[!-\/:-~！-／：-～‘-‟　-。]+"), split(r"\s+$"), split(CJK), digits)),
    (["deepseek-coder"], base.byte_level(split(r"[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(CJK), digits)),
    (["default"], base.byte_level(*(split(regex) for regex in from_source("kDefaultSteps")))),
]


def line(value):
    print(json.dumps(value, separators=(",", ":")))


def sentencepiece_case(add_dummy_prefix):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(t.replace("\x00", "") for t in base.CORPUS), model_writer=model, model_type="bpe", vocab_size=700,
        byte_fallback=True, character_coverage=0.985, normalization_rule_name="identity", remove_extra_whitespaces=False,
        add_dummy_prefix=add_dummy_prefix, split_by_whitespace=False, max_sentencepiece_length=9, num_threads=1,
        minloglevel=2)
    spm = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    ids = range(spm.get_piece_size())
    types = [2 if spm.is_unknown(i) else 3 if spm.is_control(i) else 6 if spm.is_byte(i) else 1 for i in ids]
    probes = [p for p in PROBES if "\x00" not in p]
    line({"llama": {"tokens": [spm.id_to_piece(i) for i in ids], "scores": [spm.get_score(i) for i in ids], "types": types},
          "add_space_prefix": add_dummy_prefix, "cases": [{"text": p, "ids": spm.encode(p)} for p in probes]})


def main():
    data = json.loads(KINDS[0][1].to_str())["model"]
    tokens = sorted(data["vocab"], key=data["vocab"].get)
    assert list(data["vocab"][t] for t in tokens) == list(range(len(tokens)))
    line({"tokens": tokens, "merges": [" ".join(m) for m in data["merges"]]})
    for names, tokenizer in KINDS:
        assert json.loads(tokenizer.to_str())["model"]["vocab"] == data["vocab"]
        line({"names": names, "cases": [{"text": p, "ids": tokenizer.encode(p, add_special_tokens=False).ids} for p in PROBES]})
    sentencepiece_case(True)
    sentencepiece_case(False)


main()
