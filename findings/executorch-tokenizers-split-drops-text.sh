#!/usr/bin/env bash
# pytorch-tokenizers 1.5.0, the C++ tokenizers of ExecuTorch's runners, and tokenizers 0.23.3:
# `behavior` and `invert` of the pre-tokenizer Split in a tokenizer.json.
#
# Expected: the five behaviours as in tokenizers, or a file that is refused.
# Seen: MergedWithNext and Contiguous are refused. The others are loaded, and all mean the same: what the
# pattern matches is kept, and where it matches at all, the rest of the text is lost. So "Removed" keeps
# the spaces and loses the words, and "MergedWithPrevious" keeps the marks alone; "Isolated" is right only
# if the pattern matches everything, as those of GPT-2 and Llama 3 do. Compare decoded ids with the text.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tokenizers==0.23.3
"$folder/venv/bin/pip" install --quiet --no-deps pytorch-tokenizers==1.5.0 tiktoken==0.14.0 \
  sentencepiece==0.2.3 regex==2026.11.19 numpy==2.4.6
cat > "$folder/expected" <<'TEXT'
isolated, [a-z]+: tokenizers 'one, two.', pytorch-tokenizers 'onetwo'
isolated, inverted, [a-z]+: tokenizers 'one, two.', pytorch-tokenizers 'onetwo'
removed, [^a-z]+: tokenizers 'onetwo', pytorch-tokenizers ', .'
removed, inverted, [a-z]+: tokenizers 'onetwo', pytorch-tokenizers 'onetwo'
merged_with_previous, [,.]: tokenizers 'one, two.', pytorch-tokenizers ',.'
merged_with_next, [,.]: tokenizers 'one, two.', pytorch-tokenizers refuses the file
contiguous, [,.]: tokenizers 'one, two.', pytorch-tokenizers refuses the file
TEXT
"$folder/venv/bin/python" - > "$folder/seen" 2> "$folder/log" <<'PYTHON' || { cat "$folder/log"; exit 1; }
from pathlib import Path
from tempfile import TemporaryDirectory

from pytorch_tokenizers import CppHFTokenizer
from tokenizers import Regex, Tokenizer, decoders, models, trainers
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split

TEXT = "one, two."


def both(behavior, inverted, pattern):
    reference = Tokenizer(models.BPE())
    split = Split(Regex(pattern), behavior, invert=inverted)
    reference.pre_tokenizer = Sequence([split, ByteLevel(add_prefix_space=False, use_regex=False)])
    reference.decoder = decoders.ByteLevel()
    alphabet = trainers.BpeTrainer(initial_alphabet=ByteLevel.alphabet(), show_progress=False)
    reference.train_from_iterator([], alphabet)
    executorchs = CppHFTokenizer()
    with TemporaryDirectory() as folder:
        path = str(Path(folder, "tokenizer.json"))
        reference.save(path)
        try:
            executorchs.load(path)
        except RuntimeError:
            return repr(reference.decode(reference.encode(TEXT).ids)), "refuses the file"
    ids = executorchs.encode(TEXT, 0, 0)
    return repr(reference.decode(reference.encode(TEXT).ids)), repr(reference.decode(ids))


for behavior, inverted, pattern in (
    ("isolated", False, "[a-z]+"),
    ("isolated", True, "[a-z]+"),
    ("removed", False, "[^a-z]+"),
    ("removed", True, "[a-z]+"),
    ("merged_with_previous", False, "[,.]"),
    ("merged_with_next", False, "[,.]"),
    ("contiguous", False, "[,.]"),
):
    wanted, found = both(behavior, inverted, pattern)
    name = behavior + (", inverted" if inverted else "")
    print(f"{name}, {pattern}: tokenizers {wanted}, pytorch-tokenizers {found}")
PYTHON
diff "$folder/expected" "$folder/seen"
