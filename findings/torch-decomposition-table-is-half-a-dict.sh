#!/usr/bin/env bash
# torch 2.13.0: the table of torch.export.default_decompositions(), a subclass of dict.
#
# Expected: a dict. So `default_decompositions() | mine` adds to it, `get` finds what `in` finds, and
# it equals {} only when it is empty.
# Seen: len, in, [], keys, items and pop see 943 entries; ==, |, get and values see the dict below,
# which is empty. `default_decompositions() | {}` decomposes nothing, without a word. Two tables are
# equal whatever was taken out. dict(table.items()) is a real one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6
cat > "$folder/expected" <<'TEXT'
len, keys, items: 943, 943, 943
in, []: True, True
get: None
values: 0
== {}: True
== without silu: True
| {}: 0
default: mul, sigmoid
default | {}: silu
dict(items) | {}: mul, sigmoid
TEXT
"$folder/venv/bin/python" > "$folder/seen" 2> "$folder/log" <<'PYTHON' || { cat "$folder/log"; exit 1; }
import torch
from torch.export import default_decompositions, export

silu = torch.ops.aten.silu.default
table = default_decompositions()
without = default_decompositions()
without.pop(silu)
print(f"len, keys, items: {len(table)}, {len(list(table.keys()))}, {len(list(table.items()))}")
print(f"in, []: {silu in table}, {callable(table[silu])}")
print(f"get: {table.get(silu)}")
print(f"values: {len(list(table.values()))}")
print(f"== {{}}: {table == {}}")
print(f"== without silu: {table == without}")
print(f"| {{}}: {len(table | {})}")

program = export(torch.nn.SiLU(), (torch.ones(4),))


def decomposed(title, table):
    graph = program.run_decompositions(table).graph
    calls = [node.target for node in graph.nodes if node.op == "call_function"]
    print(f"{title}:", ", ".join(sorted({call._schema.name.split("::")[1] for call in calls})))


decomposed("default", default_decompositions())
decomposed("default | {}", default_decompositions() | {})
decomposed("dict(items) | {}", dict(default_decompositions().items()) | {})
PYTHON
diff "$folder/expected" "$folder/seen"
