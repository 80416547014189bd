#!/usr/bin/env bash
# tiktoken 0.14.0, where one special token begins with another.
#
# Expected: the longest that fits, as tokenizers does, or the one that was named first.
# Seen: neither. Special tokens become one regex of alternatives in the order of a hash table, and the
# first alternative that fits wins. With <a>, <a>b, <a>bb and <a>bbb, "<a>bbb" is <a>b and two bytes;
# with two tokens more, the longest is found. The order in which they were named has no effect.
# Whoever reads a tiktoken file with such names must ask tiktoken, or refuse them.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tiktoken==0.14.0 tokenizers==0.23.3
cat > "$folder/expected" <<'TEXT'
2 tokens: tiktoken ['<a>', 'b'], tokenizers ['<a>b']
2 tokens, named in reverse: tiktoken ['<a>', 'b'], tokenizers ['<a>b']
4 tokens: tiktoken ['<a>b', 'b', 'b'], tokenizers ['<a>bbb']
4 tokens, named in reverse: tiktoken ['<a>b', 'b', 'b'], tokenizers ['<a>bbb']
6 tokens: tiktoken ['<a>bbbbb'], tokenizers ['<a>bbbbb']
6 tokens, named in reverse: tiktoken ['<a>bbbbb'], tokenizers ['<a>bbbbb']
TEXT
"$folder/venv/bin/python" - > "$folder/seen" <<'PYTHON'
import tiktoken
from tokenizers import Tokenizer, models

BYTES = {bytes([byte]): byte for byte in range(256)}
for count in (2, 4, 6):
    names = ["<a>" + "b" * more for more in range(count)]
    for order in ("", ", named in reverse"):
        special = {name: 256 + place for place, name in enumerate(names)}
        encoding = tiktoken.Encoding(
            "bytes", pat_str=".", mergeable_ranks=BYTES, special_tokens=special
        )
        ids = encoding.encode(max(names, key=len), allowed_special="all")
        tokenizer = Tokenizer(models.BPE())
        tokenizer.add_special_tokens(names)
        print(
            f"{count} tokens{order}: tiktoken {[encoding.decode([one]) for one in ids]}, "
            f"tokenizers {tokenizer.encode(max(names, key=len)).tokens}"
        )
        names.reverse()
PYTHON
diff "$folder/expected" "$folder/seen"
