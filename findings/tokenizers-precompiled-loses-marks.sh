#!/usr/bin/env bash
# tokenizers 0.23.3 and sentencepiece 0.2.3, with the same `precompiled_charsmap` (rule nmt_nfkc).
#
# Expected: the normalizer Precompiled does what SentencePiece does with its own table.
# Seen: it looks a grapheme up as a whole and takes what the table has for its beginning, so that marks
# after it are lost: A with a ring and an acute becomes A with a ring alone. A grapheme of six bytes or
# more is looked up character by character instead: Korean jamo and Japanese voiced kana stay apart,
# where SentencePiece composes them. A tokenizer.json with this step and the model that it was made
# from give other ids for such texts, without a word.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tokenizers==0.23.3 sentencepiece==0.2.3 protobuf==7.36.2
cat > "$folder/expected" <<'TEXT'
'e\u0301': both '\xe9'
'A\u030a\u0301': SentencePiece '\u01fa', tokenizers '\xc5'
'\ufdfa\u0301': SentencePiece ends in '\u0301', tokenizers in '\u0645'
'\u304b\u3099': SentencePiece '\u304c', tokenizers '\u304b\u3099'
'\u1112\u1161\u11ab': SentencePiece '\ud55c', tokenizers '\u1112\u1161\u11ab'
TEXT
"$folder/venv/bin/python" - > "$folder/seen" <<'PYTHON'
import io

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers.normalizers import Precompiled

file = io.BytesIO()
sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(["the cat sat on the mat, and the dog beside it"] * 200),
    model_writer=file,
    vocab_size=60,
    hard_vocab_limit=False,
    normalization_rule_name="nmt_nfkc",
    minloglevel=2,
)
model = sentencepiece_model_pb2.ModelProto()
model.ParseFromString(file.getvalue())
converted = Precompiled(model.normalizer_spec.precompiled_charsmap)
original = sentencepiece.SentencePieceNormalizer(
    model_proto=file.getvalue(),
    add_dummy_prefix=False,
    escape_whitespaces=False,
    remove_extra_whitespaces=False,
)
for text in ("e\u0301", "A\u030a\u0301", "\ufdfa\u0301", "\u304b\u3099", "\u1112\u1161\u11ab"):
    one, other = original.normalize(text), converted.normalize_str(text)
    if one == other:
        print(f"{ascii(text)}: both {ascii(one)}")
    elif len(one) > 5:
        print(f"{ascii(text)}: SentencePiece ends in {ascii(one[-1])}, tokenizers in {ascii(other[-1])}")
    else:
        print(f"{ascii(text)}: SentencePiece {ascii(one)}, tokenizers {ascii(other)}")
PYTHON
diff "$folder/expected" "$folder/seen"
