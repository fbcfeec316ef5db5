# SPDX-License-Identifier: Apache-2.0
"""Tokenizer, chat template and Jinja cases, through the program's JSON-lines commands."""
import pytest
from lockstep import QWEN3_TOKENIZER, SMOLLM2, ask, cases

TOKENIZERS = {"qwen3": QWEN3_TOKENIZER, "smollm2": SMOLLM2}


@pytest.mark.parametrize("path,tokenizer", [("tokenizer/qwen3_cases.jsonl", "qwen3"), ("tokenizer/smollm2_cases.jsonl", "smollm2"),
                                            ("tokenizer/qwen3_unicode_cases.jsonl", "qwen3")])
def test_tokenizer(path, tokenizer):
    asked, wanted = [], []
    for case in cases(path):
        if case["kind"] == "encode":
            asked.append({"text": case["text"], "parse_special": True})
            wanted.append({"ids": case["ids"]})
            if "ids_plain" in case:
                asked.append({"text": case["text"], "parse_special": False})
                wanted.append({"ids": case["ids_plain"]})
        else:
            for skip, key in ((False, "text"), (True, "text_skip_special")):
                asked.append({"ids": case["ids"], "skip_special_tokens": skip})
                wanted.append({"text": case[key]})
    assert len(asked) >= 14
    for question, want, got in zip(asked, wanted, ask("tokenize", "--tokenizer", TOKENIZERS[tokenizer], lines=asked)):
        assert got == want, question


@pytest.mark.parametrize("path,tokenizer", [("chat/qwen3_cases.jsonl", "qwen3"), ("chat/smollm2_cases.jsonl", "smollm2")])
def test_chat(path, tokenizer):
    wanted = cases(path)
    fields = ("messages", "tools", "add_generation_prompt", "continue_final_message", "chat_template_kwargs")
    answers = ask("render", "--tokenizer", TOKENIZERS[tokenizer], lines=[{f: c[f] for f in fields if f in c} for c in wanted])
    texts = []
    for want, got in zip(wanted, answers):
        assert ("error" in got) == ("error" in want), want["id"]
        assert got.get("text") == want.get("text"), want["id"]
        if "text" in want:
            texts.append(want)
    encoded = ask("tokenize", "--tokenizer", TOKENIZERS[tokenizer], lines=[{"text": c["text"], "parse_special": True} for c in texts])
    assert [e["ids"] for e in encoded] == [c["ids"] for c in texts]


def test_jinja():
    wanted = cases("jinja/cases.jsonl")
    asked = [{"template": c["template"], "context": c["context"], "now": "2025-07-26T14:05:09"} for c in wanted]
    for want, got in zip(wanted, ask("render", "--raw", lines=asked)):
        assert ("error" in got) == ("error" in want), want["id"]
        assert got.get("output") == want.get("output"), want["id"]
