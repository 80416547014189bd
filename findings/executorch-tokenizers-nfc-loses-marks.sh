#!/usr/bin/env bash
# pytorch-tokenizers 1.5.0, the C++ tokenizers of ExecuTorch's runners, and tokenizers 0.23.3:
# a tokenizer.json with the normalizer NFC, as Qwen 2 to 3 have it.
#
# Expected: the same ids; NFC leaves a text alone that is in this form, as nearly all texts are.
# Seen: each composed letter is taken apart, and only its first part is kept: accents are lost, and so are
# the voicing of Japanese and the vowels of Korean. The model reads another text, without an error; the log
# says that "our implementation may not handle all edge cases". A text that comes with its marks apart is
# composed, as it should be. So give such a runner texts in NFD (unicodedata.normalize), or ids.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tokenizers==0.23.3
"$folder/venv/bin/pip" install --quiet --no-deps pytorch-tokenizers==1.5.0 tiktoken==0.14.0 \
  sentencepiece==0.2.3 regex==2026.11.19 numpy==2.4.6
cat > "$folder/expected" <<'TEXT'
naïve café is read as naive cafe
Ångström is read as Angstrom
Việt Nam is read as Viet Nam
ガラス is read as カラス
가 is read as ᄀ
with marks apart, naïve café is read as naïve café
TEXT
"$folder/venv/bin/python" - > "$folder/seen" 2> "$folder/log" <<'PYTHON' || { cat "$folder/log"; exit 1; }
import unicodedata
from pathlib import Path
from tempfile import TemporaryDirectory

from pytorch_tokenizers import CppHFTokenizer
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

reference = Tokenizer(models.BPE())
reference.normalizer = normalizers.NFC()
reference.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
reference.decoder = decoders.ByteLevel()
alphabet = pre_tokenizers.ByteLevel.alphabet()
reference.train_from_iterator([], trainers.BpeTrainer(initial_alphabet=alphabet, show_progress=False))
with TemporaryDirectory() as folder:
    path = str(Path(folder, "tokenizer.json"))
    reference.save(path)
    executorchs = CppHFTokenizer()
    executorchs.load(path)


def read_as(text):
    return reference.decode(executorchs.encode(text, 0, 0))


for text in ("naïve café", "Ångström", "Việt Nam", "ガラス", "가"):
    assert unicodedata.is_normalized("NFC", text)
    assert reference.decode(reference.encode(text).ids) == text
    print(text, "is read as", read_as(text))
text = "naïve café"
print("with marks apart,", text, "is read as", read_as(unicodedata.normalize("NFD", text)))
PYTHON
diff "$folder/expected" "$folder/seen"
