#!/usr/bin/env bash
# pytorch-tokenizers 1.5.0, the C++ tokenizers of ExecuTorch's runners, and tokenizers 0.23.3:
# the flags lstrip, rstrip and single_word of added tokens in a tokenizer.json.
#
# Expected: as in tokenizers: rstrip takes the white space behind the token into it. Phi-3's chat markers
# have it, so that the line break of its template behind <|user|> is no token.
# Seen: all three flags are ignored: the line break is a token of its own, which the model never saw there,
# and a word is cut where it holds a token that must stand alone. Nothing is said at load. Take the white
# space out of the text yourself, or compare the ids of a whole prompt with those of tokenizers.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tokenizers==0.23.3
"$folder/venv/bin/pip" install --quiet --no-deps pytorch-tokenizers==1.5.0 tiktoken==0.14.0 \
  sentencepiece==0.2.3 regex==2026.11.19 numpy==2.4.6
cat > "$folder/expected" <<'TEXT'
none, '<|user|>\nHi': tokenizers 4 tokens, pytorch-tokenizers 4
rstrip, '<|user|>\nHi': tokenizers 3 tokens, pytorch-tokenizers 4
lstrip, 'Hi \n<|user|>': tokenizers 3 tokens, pytorch-tokenizers 5
single_word, 'a cat': tokenizers 3 tokens, pytorch-tokenizers 3
single_word, 'a cats': tokenizers 6 tokens, pytorch-tokenizers 4
TEXT
"$folder/venv/bin/python" - > "$folder/seen" 2> "$folder/log" <<'PYTHON' || { cat "$folder/log"; exit 1; }
from pathlib import Path
from tempfile import TemporaryDirectory

from pytorch_tokenizers import CppHFTokenizer
from tokenizers import AddedToken, Tokenizer, models, trainers
from tokenizers.pre_tokenizers import ByteLevel


def both(token, text):
    reference = Tokenizer(models.BPE())
    reference.pre_tokenizer = ByteLevel(add_prefix_space=False)
    alphabet = trainers.BpeTrainer(initial_alphabet=ByteLevel.alphabet(), show_progress=False)
    reference.train_from_iterator([], alphabet)
    reference.add_tokens([token])
    executorchs = CppHFTokenizer()
    with TemporaryDirectory() as folder:
        path = str(Path(folder, "tokenizer.json"))
        reference.save(path)
        executorchs.load(path)
    return len(reference.encode(text).ids), len(executorchs.encode(text, 0, 0))


USER, CAT = "<|user|>", "cat"
for name, token, text in (
    ("none", AddedToken(USER, special=True), "<|user|>\nHi"),
    ("rstrip", AddedToken(USER, special=True, rstrip=True), "<|user|>\nHi"),
    ("lstrip", AddedToken(USER, special=True, lstrip=True), "Hi \n<|user|>"),
    ("single_word", AddedToken(CAT, single_word=True, normalized=False), "a cat"),
    ("single_word", AddedToken(CAT, single_word=True, normalized=False), "a cats"),
):
    wanted, found = both(token, text)
    print(f"{name}, {text!r}: tokenizers {wanted} tokens, pytorch-tokenizers {found}")
PYTHON
diff "$folder/expected" "$folder/seen"
