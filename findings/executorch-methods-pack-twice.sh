#!/usr/bin/env bash
# executorch 1.5.1 with XNNPACK: two methods of one file over the same weights.
#
# Expected: the file stores the weights once, by their content, and a process that loads both methods
# has them in memory once.
# Seen: the file has them once, but each method that is loaded packs a copy of its own, so that two
# methods take twice the memory. The Python runtime has no option against it; in C++ the backend's
# option weight_cache_enabled is off unless a program sets it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 executorch==1.5.1
cat > "$folder/expected" <<'TEXT'
in sizes of the weights: the file 1.0, memory for the first method 1.0, for the second 1.0
TEXT
cat > "$folder/export.py" <<'PYTHON'
import sys

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower


class Scaled(torch.nn.Module):
    def __init__(self, linear, scale):
        super().__init__()
        self.linear, self.scale = linear, scale

    def forward(self, x):
        return self.linear(x) * self.scale


linear = torch.nn.Linear(4096, 4096, bias=False).eval()
example = (torch.ones(1, 4096),)
programs = {
    name: torch.export.export(Scaled(linear, scale), example, strict=True)
    for name, scale in (("first", 1.0), ("second", 2.0))
}
partitioner = {name: [XnnpackPartitioner()] for name in programs}
edge = to_edge_transform_and_lower(programs, partitioner=partitioner)
with open(sys.argv[1], "wb") as file:
    edge.to_executorch().write_to_file(file)
PYTHON
cat > "$folder/load.py" <<'PYTHON'
import os
import sys

import torch
from executorch.runtime import Runtime

WEIGHTS = 4096 * 4096 * 4  # bytes


def memory():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))


program = Runtime.get().load_program(sys.argv[1])
grown, methods = [], []
for name in ("first", "second"):
    before = memory()
    methods.append(program.load_method(name))
    grown.append(f"{(memory() - before) / WEIGHTS:.1f}")
rows = [method.execute([torch.ones(1, 4096)])[0] for method in methods]
assert torch.equal(rows[0] * 2, rows[1])
print(
    f"in sizes of the weights: the file {os.path.getsize(sys.argv[1]) / WEIGHTS:.1f}, "
    f"memory for the first method {grown[0]}, for the second {grown[1]}"
)
PYTHON
"$folder/venv/bin/python" "$folder/export.py" "$folder/two.pte" > "$folder/log" 2>&1
"$folder/venv/bin/python" "$folder/load.py" "$folder/two.pte" 2>> "$folder/log" > "$folder/seen"
diff "$folder/expected" "$folder/seen"
cat "$folder/seen"
