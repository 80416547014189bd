#!/usr/bin/env bash
# tokenizers 0.23.3 and sentencepiece 0.2.3: pieces that are single bytes (<0xC3>), decoded before the last
# letter is whole, as after each token of an answer or where a limit cuts it.
#
# Expected: letters that are whole are shown, and what is missing is one U+FFFD, in both.
# Seen: tokenizers decodes a run of byte pieces whole or not at all. One missing byte turns every letter
# of the run into U+FFFD, one for each byte, so that a text of Chinese or emoji that was right vanishes
# until the next letter is whole. sentencepiece keeps the letters, and gives one U+FFFD for each byte
# that is left over. Who prints the difference of two such decodings prints the wrong thing.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tokenizers==0.23.3 sentencepiece==0.2.3
cat > "$folder/expected" <<'TEXT'
3 bytes: sentencepiece '\u4f60', tokenizers '\u4f60'
4 bytes: sentencepiece '\u4f60\ufffd', tokenizers '\ufffd\ufffd\ufffd\ufffd'
5 bytes: sentencepiece '\u4f60\ufffd\ufffd', tokenizers '\ufffd\ufffd\ufffd\ufffd\ufffd'
6 bytes: sentencepiece '\u4f60\u597d', tokenizers '\u4f60\u597d'
7 bytes: sentencepiece '\u4f60\u597d\ufffd', tokenizers '\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd'
TEXT
"$folder/venv/bin/python" - > "$folder/seen" <<'PYTHON'
import io

import sentencepiece
from tokenizers import Tokenizer, decoders, models

file = io.BytesIO()
sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(["the cat sat on the mat, and the dog beside it"] * 200),
    model_writer=file,
    model_type="bpe",
    vocab_size=290,
    hard_vocab_limit=False,
    byte_fallback=True,
    minloglevel=2,
)
original = sentencepiece.SentencePieceProcessor(model_proto=file.getvalue())
pieces = {original.id_to_piece(number): number for number in range(original.get_piece_size())}
converted = Tokenizer(models.BPE(pieces, [], byte_fallback=True, unk_token="<unk>"))
converted.decoder = decoders.ByteFallback()
content = "\u4f60\u597d\u4e16".encode()
for count in range(3, 8):
    ids = [pieces[f"<0x{byte:02X}>"] for byte in content[:count]]
    print(
        f"{count} bytes: sentencepiece {ascii(original.decode(ids))}, "
        f"tokenizers {ascii(converted.decode(ids))}"
    )
PYTHON
diff "$folder/expected" "$folder/seen"
