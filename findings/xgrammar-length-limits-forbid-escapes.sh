#!/usr/bin/env bash
# xgrammar 0.2.9: a string of a JSON Schema with a limit of length, to which an answer is held.
#
# Expected: "maxLength": 1000 limits the characters and nothing else: what a plain string may hold,
# a shorter one may hold too.
# Seen: with a limit of any size, but for a minLength of 0, no escape is left. The answer cannot hold a
# line break, a quotation mark or a backslash. Without the limit all of these pass, and \u00e9 as well.
# So a model that quotes somebody in a field of at most 1000 characters must end the string there.
# Leave such limits out of schemas for xgrammar, and check the length of the answer.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6 pydantic==2.14.3 transformers==5.23.0
"$folder/venv/bin/pip" install --quiet --no-deps xgrammar==0.2.9 apache-tvm-ffi==0.1.15.post2
cat > "$folder/expected" <<'TEXT'
{"type": "string"}: plain yes, line break yes, quotation mark yes, backslash yes, \u00e9 yes
{"type": "string", "maxLength": 1000}: plain yes, line break no, quotation mark no, backslash no, \u00e9 no
{"type": "string", "minLength": 1}: plain yes, line break no, quotation mark no, backslash no, \u00e9 no
{"type": "string", "minLength": 0}: plain yes, line break yes, quotation mark yes, backslash yes, \u00e9 yes
TEXT
"$folder/venv/bin/python" - > "$folder/seen" 2> "$folder/log" <<'PYTHON' || { cat "$folder/log"; exit 1; }
import json

import xgrammar

END = 256
TOKENS = xgrammar.TokenizerInfo(
    [*(bytes([byte]) for byte in range(END)), b"<end>"], stop_token_ids=[END]
)
TEXTS = {
    "plain": r'"two lines"',
    "line break": r'"two\nlines"',
    "quotation mark": r'"a \"word\""',
    "backslash": r'"C:\\temp"',
    r"\u00e9": r'"caf\u00e9"',
}


def allows(schema, text):
    compiler = xgrammar.GrammarCompiler(TOKENS, max_threads=1)
    matcher = xgrammar.GrammarMatcher(compiler.compile_json_schema(schema))
    return all(matcher.accept_token(byte) for byte in text.encode()) and matcher.accept_token(END)


for limits in ({}, {"maxLength": 1000}, {"minLength": 1}, {"minLength": 0}):
    schema = json.dumps({"type": "string", **limits})
    answers = (f"{name} {'yes' if allows(schema, text) else 'no'}" for name, text in TEXTS.items())
    print(f"{schema}: {', '.join(answers)}")
PYTHON
diff "$folder/expected" "$folder/seen"
