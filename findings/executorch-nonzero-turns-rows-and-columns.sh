#!/usr/bin/env bash
# executorch 1.5.1, its own kernels: torch.nonzero as a program's output, of [[1, 0, 2], [0, 3, 0]].
#
# Expected: the positions (0, 0), (0, 2) and (1, 1), one a row, as torch gives them.
# Seen: the same six numbers in other places. PyTorch's own result is stored by columns, so the traced
# program says that of the kernel's result too; but the kernel writes rows. No error is raised: the shape
# and the type are right. A sum over a dimension of it is wrong likewise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 executorch==1.5.1
cat > "$folder/expected" <<'TEXT'
torch      positions [[0, 0], [0, 2], [1, 1]], summed [1, 3]
executorch positions [[0, 2], [0, 1], [0, 1]], summed [0, 4]
TEXT
cat > "$folder/run.py" <<'PYTHON'
import torch
from executorch.exir import to_edge
from executorch.runtime import Runtime


class Positions(torch.nn.Module):
    def forward(self, x):
        return torch.nonzero(x)


class Summed(torch.nn.Module):
    def forward(self, x):
        return torch.nonzero(x).sum(0)


def executorch(module, x):
    program = to_edge(torch.export.export(module, (x,))).to_executorch()
    buffer = program.buffer
    return Runtime.get().load_program(buffer).load_method("forward").execute([x])[0].tolist()


x = torch.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
print("torch      positions", f"{Positions()(x).tolist()}, summed {Summed()(x).tolist()}")
print("executorch positions", f"{executorch(Positions(), x)}, summed {executorch(Summed(), x)}")
PYTHON
"$folder/venv/bin/python" "$folder/run.py" 2> "$folder/log" > "$folder/seen"
diff "$folder/expected" "$folder/seen"
cat "$folder/seen"
