# SPDX-License-Identifier: Apache-2.0
"""Makes a Hugging Face tokenizer directory from a byte-level BPE GGUF file, for load generators that want one.

`gguf_tokenizer.py MODEL.gguf OUT_DIR` (needs PyPI gguf and tokenizers). Vocabulary, merges and special tokens are the
file's; digits are split one by one, as SmolLM's pre-tokenizer does.
"""
import json
import pathlib
import sys

import gguf
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

CONTROL = 3  # ggml's token type


def field_values(reader, name):
    field = reader.fields[name]
    return [bytes(field.parts[i]).decode() if field.types[-1] == gguf.GGUFValueType.STRING else field.parts[i][0] for i in field.data]


def main():
    reader = gguf.GGUFReader(sys.argv[1])
    out = pathlib.Path(sys.argv[2])
    if field_values(reader, "tokenizer.ggml.model") != ["gpt2"]:
        sys.exit("the file's tokenizer is not byte-level BPE (gpt2)")
    tokens = field_values(reader, "tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ", 1)) for merge in field_values(reader, "tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    types = field_values(reader, "tokenizer.ggml.token_type")
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token, kind in zip(tokens, types) if kind == CONTROL])
    out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(out / "tokenizer.json"))
    eos = tokens[field_values(reader, "tokenizer.ggml.eos_token_id")[0]]
    (out / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": eos}))


if __name__ == "__main__":
    main()
