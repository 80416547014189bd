#!/usr/bin/env bash
# outlines-core 0.2.14 and llguidance 1.9.1: `pattern` of a JSON Schema, to which an answer is held.
#
# Expected: a search, as JSON Schema says: "cat" fits "the cat sat", and ^cat fits "cats".
# Seen: so it is in llguidance. outlines-core puts the pattern between the quotes: without anchors it
# must be the whole string. The pair of ^ and $ is taken off; one of them alone stays, and the index is
# refused with a sentence that blames the vocabulary. Where both stand in other branches, as in ^cat|dog$,
# the quotes fall into the branches: the text that it allows is no JSON. Write ^(...)$ and .* for it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet outlines-core==0.2.14 llguidance==1.9.1
cat > "$folder/expected" <<'TEXT'
cat, "cat": outlines-core yes, llguidance yes
cat, "the cat sat": outlines-core no, llguidance yes
^cat, "cats": outlines-core refuses the vocabulary, llguidance yes
cat$, "a cat": outlines-core refuses the vocabulary, llguidance yes
^cat|dog$, "cat": outlines-core no, llguidance yes
^cat|dog$, "cat: outlines-core yes, llguidance no
^.*(cat|dog).*$, "the cat sat": outlines-core yes, llguidance yes
TEXT
"$folder/venv/bin/python" - > "$folder/seen" <<'PYTHON'
import json

import llguidance
from outlines_core import Index, Vocabulary
from outlines_core.json_schema import build_regex_from_schema

END = 256
BYTES = [bytes([byte]) for byte in range(END)]


class ByteTokenizer:
    tokens = [*BYTES, b"<end>"]
    special_token_ids = [END]
    eos_token_id, bos_token_id, unk_token_id = END, None, None

    def __call__(self, text):
        return list(text if isinstance(text, bytes) else text.encode())


TOKENIZER = llguidance.LLTokenizer(llguidance.TokenizerWrapper(ByteTokenizer()))
VOCABULARY = Vocabulary(END, {one: [one[0]] for one in BYTES})


def by_outlines_core(schema, text):
    try:
        index = Index(build_regex_from_schema(schema), VOCABULARY)
    except ValueError as error:
        assert "vocabulary provided is incompatible" in str(error)
        return "refuses the vocabulary"
    state = index.get_initial_state()
    for byte in text:
        if state is not None:
            state = index.get_next_state(state, byte)
    return "yes" if state is not None and index.is_final_state(state) else "no"


def by_llguidance(schema, text):
    matcher = llguidance.LLMatcher(TOKENIZER, llguidance.LLMatcher.grammar_from_json_schema(schema))
    assert not matcher.is_error()
    whole = matcher.try_consume_tokens(list(text)) == len(text) and matcher.is_accepting()
    return "yes" if whole else "no"


for pattern, text in (
    ("cat", '"cat"'),
    ("cat", '"the cat sat"'),
    ("^cat", '"cats"'),
    ("cat$", '"a cat"'),
    ("^cat|dog$", '"cat"'),
    ("^cat|dog$", '"cat'),
    ("^.*(cat|dog).*$", '"the cat sat"'),
):
    schema = json.dumps({"type": "string", "pattern": pattern})
    one, other = by_outlines_core(schema, text.encode()), by_llguidance(schema, text.encode())
    print(f"{pattern}, {text}: outlines-core {one}, llguidance {other}")
PYTHON
diff "$folder/expected" "$folder/seen"
