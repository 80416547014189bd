#!/usr/bin/env bash
# executorch 1.5.1, its own kernels: programs of modules that change an input, or are given keywords.
#
# Expected: a program returns what its module returns, and changes the caller's tensor as the module does
# (or is refused at export); arguments that were exported as keywords have the order of forward().
# Seen: the changed input is one more output, before the module's own, while the caller's tensor stays as
# it was: whoever reads the first output gets the input. Keywords keep the order of the dictionary that
# was given to torch.export, so that arguments in the order of forward() change places without an error.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 executorch==1.5.1
cat > "$folder/expected" <<'TEXT'
x.add_(1); return x * 10, of 0: outputs [1.0, 10.0], the caller's x is 0.0
return 100 * a + 10 * b + c, of 1, 2, 3: 132.0 where c and b were keywords, 123.0 where b and c were
TEXT
cat > "$folder/run.py" <<'PYTHON'
import torch
from executorch.exir import to_edge
from executorch.runtime import Runtime


class Changes(torch.nn.Module):
    def forward(self, x):
        x.add_(1)
        return x * 10


class Places(torch.nn.Module):
    def forward(self, a, b, c):
        return 100 * a + 10 * b + c


def outputs(module, args, kwargs, given):
    buffer = to_edge(torch.export.export(module, args, kwargs)).to_executorch().buffer
    method = Runtime.get().load_program(buffer).load_method("forward")
    return [float(output) for output in method.execute(given)]


one, two, three = (torch.tensor([float(number)]) for number in (1, 2, 3))
x = torch.zeros(1)
found = outputs(Changes(), (torch.zeros(1),), None, [x])
print(f"x.add_(1); return x * 10, of 0: outputs {found}, the caller's x is {float(x)}")
given = [one, two, three]
(turned,) = outputs(Places(), (one,), {"c": three, "b": two}, given)
(kept,) = outputs(Places(), (one,), {"b": two, "c": three}, given)
print(
    f"return 100 * a + 10 * b + c, of 1, 2, 3: {turned} where c and b were keywords, "
    f"{kept} where b and c were"
)
PYTHON
"$folder/venv/bin/python" "$folder/run.py" 2> "$folder/log" > "$folder/seen"
diff "$folder/expected" "$folder/seen"
cat "$folder/seen"
