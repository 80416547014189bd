#!/usr/bin/env bash
# executorch 1.5.1: XNNPACKQuantizer.set_filter_function(), which says what is quantized at all.
#
# Expected: a filter that refuses every torch.cat leaves its branches alone: each convolution before it
# keeps an observer, and so a scale, of its own.
# Seen: the filter is asked about convolutions and additions, but never about a cat. Its inputs and its
# output get one observer between them, so a branch of small numbers loses its bits to a large one. And
# whoever looks at the observer behind the cat sees each branch by itself, too.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 executorch==1.5.1 torchao==0.18.0
cat > "$folder/expected" <<'TEXT'
asked about conv2d: yes, add: yes, cat: no
branches of 1 and 0.01, with the filter: one observer, which saw 3 tensors in a call
TEXT
cat > "$folder/run.py" <<'PYTHON'
import torch
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

aten = torch.ops.aten


class Joined(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.large, self.small = torch.nn.Conv2d(3, 4, 1), torch.nn.Conv2d(3, 4, 1)
        self.after = torch.nn.Conv2d(8, 4, 1)

    def forward(self, x):
        joined = torch.cat([self.large(x), self.small(x)], 1)
        return self.after(joined) + self.after(joined)


asked = set()


def no_cat(node):
    asked.add(node.target)
    return node.target != aten.cat.default


module, x = Joined().eval(), torch.randn(1, 3, 8, 8)
with torch.no_grad():
    module.small.weight.mul_(0.01)
quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
quantizer.set_filter_function(no_cat)
prepared = prepare_pt2e(torch.export.export(module, (x,)).module(), quantizer)
names = {"conv2d": aten.conv2d.default, "add": aten.add.Tensor, "cat": aten.cat.default}
answers = [f"{name}: {'yes' if target in asked else 'no'}" for name, target in names.items()]
print(f"asked about {', '.join(answers)}")

(cat,) = prepared.graph.find_nodes(op="call_function", target=aten.cat.default)
nodes = [*cat.args[0], *cat.users]
observers = {id(prepared.get_submodule(node.target)): node for node in nodes}
(node,) = observers.values()
seen = []
prepared.get_submodule(node.target).register_forward_hook(lambda *given: seen.append(given[2]))
prepared(x)
print(f"branches of 1 and 0.01, with the filter: one observer, which saw {len(seen)} tensors in a call")
PYTHON
"$folder/venv/bin/python" "$folder/run.py" 2> "$folder/log" > "$folder/seen"
diff "$folder/expected" "$folder/seen"
cat "$folder/seen"
