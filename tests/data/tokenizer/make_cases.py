# SPDX-License-Identifier: Apache-2.0
"""Small tokenizers of every kind that Lockstep reads, with what Hugging Face's tokenizers 0.23.3 makes of random strings.

Trained on generated text, without splitting, so that tokens reach across words: then the ids show where a text was cut.
usage: python make_cases.py > cases.jsonl      (PyPI package tokenizers)
One line a tokenizer: {"name", "tokenizer": tokenizer.json, "cases": [{"text", "ids", "special_ids", "text_back"}]}
"""
import json
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

RNG = random.Random(20250726)
SNIPPETS = (
    "the and of to in a is that for it as was with be by on not he his but at are this have from or had an they which one "
    "you were all her she there would their we him been has when who will no more if out so up said what its about than "
    "into them can only other time new some could these two may first then do any like my now over such our man me even "
    "don't I'll we've THEY'RE it'S 'Tis O'Neil x'd Hello World HELLO camelCase PascalCase snake_case HTTPServer iPhone ÀÉÎ "
    "1 2 12 123 1234 12345 3.14 2024-05-06 0x1F ½ Ⅷ ٣٤ ²³ １２ "
    "! ? . , ; : -- ... /* */ // <= => == != += {} [] () <> @ # $ % ^ & * ~ ` | \\ \" ' « » „ “ ” ¿ ¡ € £ ± × "
    "für naïve façade Ångström e\u0301 a\u0323\u0307 \u1e69 \u212b \ufb01 \u017f \u1e9e ß İ ı "
    "привет мир γειά σου שלום مرحبا नमस्ते ไทย 日本語 こんにちは カタカナ 中文字符 한국어 \u1100\u1161\u11a8 "
    "😀 👨‍👩‍👧 🇳🇴 ☃ ❤️ \u200b \u200d \ufeff \u00ad \u180e \u0085 \u2028 \ufffd \x00 \x1c \x7f "
    "\u1c89 \U00031350 \U000105c0 \U0001fae9 \U000105d2\u0307 \U0001e4f0\u0316"
).split(" ")
SPACES = [" ", " ", " ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n ", "\u00a0", "\u3000", "", "", ""]


def text(words):
    return "".join(RNG.choice(SNIPPETS) + RNG.choice(SPACES) for _ in range(words))


CORPUS = [text(40) for _ in range(400)]
PROBES = ["", " ", "  ", "\n", "a", "a b", "  a", "a  ", "'", "'s", "x's", "X'S", "'\u017f", "don't", "\t\tx", " 12345", "12 345"]
PROBES += [text(RNG.randint(1, 9)) for _ in range(45)] + [text(30) for _ in range(3)]


def byte_level_model(**options):
    tokenizer = Tokenizer(models.BPE(**options))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=900, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), max_token_length=9,
                                  show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def byte_level(*steps, normalizer=None, ignore_merges=False, prefix_space=False, use_regex=False):
    tokenizer = byte_level_model()
    tokenizer.model.ignore_merges = ignore_merges
    last = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space, use_regex=use_regex)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*steps, last]) if steps else last
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    return tokenizer


def split(regex, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(regex), behavior, invert)


def sentencepiece_bpe(**options):
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    specials = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=specials, limit_alphabet=120, max_token_length=9, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    data = json.loads(tokenizer.to_str())
    data["added_tokens"] = data["added_tokens"][:3]  # the byte tokens are ordinary
    data["model"]["merges"] = [m for m in data["model"]["merges"]]
    return data


UNK = 0


def from_json(data):
    return Tokenizer.from_str(json.dumps(data))


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"""
            r"""\s*[\r\n]+|\s+(?!\S)|\s+""")
BEHAVIORS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]


def added_tokens():
    tokenizer = byte_level(use_regex=True, normalizer=normalizers.NFC())
    tokenizer.add_special_tokens([AddedToken("<|a|>"), AddedToken("<|a|>b"), AddedToken("<|l|>", lstrip=True),
                                  AddedToken("<|r|>", rstrip=True), AddedToken("<|é|>", normalized=True)])
    tokenizer.add_tokens([AddedToken("wör", single_word=True), AddedToken("both", lstrip=True, rstrip=True, single_word=True),
                          AddedToken("e\u0301x", normalized=True), AddedToken("   "), AddedToken("ab"), AddedToken("abcab")])
    return tokenizer


def added_probes():
    bits = ["<|a|>", "<|a|>b", "<|l|>", "<|r|>", "<|é|>", "<|e\u0301|>", "wör", "both", "e\u0301x", "éx", "   ", "ab", "abcab",
            "abcabc", " ", "  ", "x", "_", "\n", "<|", "|>", "1", "中"]
    return ["".join(RNG.choice(bits) for _ in range(RNG.randint(1, 8))) for _ in range(120)]


def post_processed():
    tokenizer = byte_level(split(LLAMA3))
    tokenizer.add_special_tokens(["<bos>", "<eos>"])
    ids = [(t, tokenizer.token_to_id(t)) for t in ("<bos>", "<eos>")]
    template = processors.TemplateProcessing(single="<bos> $A <eos>", special_tokens=ids)
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return tokenizer


def sentencepiece_variants():
    data = sentencepiece_bpe()
    llama2 = dict(data, pre_tokenizer=None,
                  normalizer={"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
                                                                  {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
                  decoder={"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                                                            {"type": "ByteFallback"}, {"type": "Fuse"},
                                                            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})
    yield "bpe byte_fallback, Prepend and Replace", from_json(llama2)
    gemma = dict(llama2, normalizer={"type": "Replace", "pattern": {"String": " "}, "content": "▁"})
    gemma["decoder"] = {"type": "Sequence", "decoders": llama2["decoder"]["decoders"][:3]}
    yield "bpe byte_fallback, Replace only", from_json(gemma)
    no_bytes = dict(gemma, model=dict(gemma["model"], byte_fallback=False, fuse_unk=False))
    yield "bpe unknown characters", from_json(no_bytes)
    yield "bpe unknown characters fused", from_json(dict(no_bytes, model=dict(no_bytes["model"], fuse_unk=True)))
    for scheme in ("always", "first", "never"):
        for cuts in (True, False):
            step = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": cuts}
            yield f"metaspace {scheme} {cuts}", from_json(dict(data, pre_tokenizer=step, decoder=step))


def unigram(byte_fallback):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    specials = ["<unk>"] + ([f"<0x{b:02X}>" for b in range(256)] if byte_fallback else [])
    trainer = trainers.UnigramTrainer(vocab_size=700, special_tokens=specials, unk_token="<unk>", show_progress=False, n_sub_iterations=1)
    tokenizer.train_from_iterator([t.replace("\x00", "") for t in CORPUS[:150]], trainer)
    data = json.loads(tokenizer.to_str())
    data["model"]["byte_fallback"] = byte_fallback
    data["added_tokens"] = data["added_tokens"][:1]
    if byte_fallback:
        data["decoder"] = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                                                            {"type": "ByteFallback"}, {"type": "Fuse"}]}
    return from_json(data)


def tokenizers_to_test():
    yield "no splitting", byte_level()
    yield "gpt2", byte_level(use_regex=True)
    yield "gpt2 prefix space", byte_level(use_regex=True, prefix_space=True)
    yield "llama3 ignore_merges", byte_level(split(LLAMA3), ignore_merges=True)
    yield "qwen2 NFC", byte_level(split(QWEN2), normalizer=normalizers.NFC())
    yield "llama3 removed inverted", byte_level(split(LLAMA3, "removed", True))
    yield "o200k", byte_level(split(O200K))
    yield "deepseek v3", byte_level(split(r"\p{N}{1,3}"), split(r"[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK))
    yield "smollm", byte_level(pre_tokenizers.Digits(individual_digits=True), use_regex=True)
    yield "digits together", byte_level(pre_tokenizers.Digits(individual_digits=False))
    yield "punctuation", byte_level(pre_tokenizers.Punctuation("merged_with_previous"))
    yield "white space split", byte_level(pre_tokenizers.WhitespaceSplit())
    yield "delimiter", byte_level(pre_tokenizers.CharDelimiterSplit("e"))
    yield "negated classes", byte_level(split(r"[^\S\n]+|\P{L}{2}|[\W\d]x|\D\w{3}|^t|[\P{Lu}a]$"))
    yield "scripts", byte_level(split(r"\p{Han}+|\p{Hiragana}|\p{Cyrillic}+|\P{Greek}\p{Thai}"))
    for behavior in BEHAVIORS:
        for invert in (False, True):
            yield f"split {behavior} {invert}", byte_level(split(r"[a-m]+|\s", behavior, invert))
        yield f"string {behavior}", byte_level(pre_tokenizers.Split("e", behavior, False))
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        yield form, byte_level(use_regex=True, normalizer=getattr(normalizers, form)())
    steps = [normalizers.Strip(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Replace("the", "THE"), normalizers.Prepend("_")]
    yield "normalizers", byte_level(use_regex=True, normalizer=normalizers.Sequence(steps))
    yield "post-processor", post_processed()
    yield from sentencepiece_variants()
    yield "unigram", unigram(False)
    yield "unigram byte_fallback", unigram(True)
    yield "added tokens", added_tokens()


def cases(tokenizer, probes):
    for probe in probes:
        ids = tokenizer.encode(probe, add_special_tokens=False).ids
        case = {"text": probe, "ids": ids, "text_back": tokenizer.decode(ids, skip_special_tokens=True)}
        special = tokenizer.encode(probe, add_special_tokens=True).ids
        if special != ids:
            case["special_ids"] = special
        yield case


last_model = None
for name, tokenizer in tokenizers_to_test():
    probes = PROBES + (added_probes() if name == "added tokens" else [])
    data = json.loads(tokenizer.to_str())
    model = {k: data["model"][k] for k in ("vocab", "merges") if k in data["model"]}
    if model == last_model:  # stored once for a run of lines
        for key in model:
            data["model"][key] = None
    last_model = model
    print(json.dumps({"name": name, "tokenizer": data, "cases": list(cases(tokenizer, probes))}, separators=(",", ":")))
