#!/usr/bin/env bash
# executorch 1.5.1, its own kernels (no delegate), bfloat16 and float16: sums of 4096 ones.
#
# Expected: sums are kept in float32, as in torch and as in executorch's own sum, mean and matmul.
# Seen: cumsum, scatter_add, avg_pool2d, convolution and var keep theirs in the tensor's type. A sum of
# ones stops at 256 in bfloat16 and at 2048 in float16: a convolution over many channels, or positions
# that cumsum counts over a mask, are wrong without a word. Compute these in float32.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 executorch==1.5.1
cat > "$folder/expected" <<'TEXT'
sum: torch 4096 and 4096, executorch 4096 and 4096
matmul: torch 4096 and 4096, executorch 4096 and 4096
cumsum: torch 4096 and 4096, executorch 256 and 2048
scatter_add: torch 4096 and 4096, executorch 256 and 2048
conv1d: torch 4096 and 4096, executorch 256 and 2048
avg_pool2d: torch 1 and 1, executorch 0.0625 and 0.5
var: torch 2 and 2, executorch 1 and 1.80957
TEXT
cat > "$folder/run.py" <<'PYTHON'
import torch
from executorch.exir import to_edge
from executorch.runtime import Runtime


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def scattered(x):
    return x.new_zeros(1).scatter_add(0, torch.zeros(4096, dtype=torch.long), x[0])


def numbers(function, rows):
    """What torch and executorch compute of the row in both types."""
    eager, edge = [], []
    for dtype in (torch.bfloat16, torch.float16):
        example = (rows.to(dtype),)
        module = Function(function)
        content = to_edge(torch.export.export(module, example)).to_executorch().buffer
        method = Runtime.get().load_program(content).load_method("forward")
        eager.append(f"{module(*example).item():g}")
        edge.append(f"{method.execute(example)[0].item():g}")
    return " and ".join(eager), " and ".join(edge)


ones = torch.ones(1, 4096)
counted = torch.arange(4096.0).remainder(5)[None]
for name, function, rows in (
    ("sum", lambda x: x.sum(1), ones),
    ("matmul", lambda x: x @ x.t(), ones),
    ("cumsum", lambda x: x.cumsum(1)[:, -1], ones),
    ("scatter_add", scattered, ones),
    ("conv1d", lambda x: torch.nn.functional.conv1d(x[..., None], x[..., None]), ones),
    ("avg_pool2d", lambda x: torch.nn.functional.avg_pool2d(x.view(1, 1, 64, 64), 64), ones),
    ("var", lambda x: x.var(1), counted),
):
    eager, edge = numbers(function, rows)
    print(f"{name}: torch {eager}, executorch {edge}")
PYTHON
"$folder/venv/bin/python" "$folder/run.py" > "$folder/seen" 2> "$folder/log" \
  || { cat "$folder/log"; exit 1; }
diff "$folder/expected" "$folder/seen"
