#!/usr/bin/env bash
# coremltools 9.0 on Linux: one PyTorch program, converted in six processes with the same hash seed.
#
# Expected: six equal packages, or packages that differ in the identifiers of Manifest.json alone.
# Seen: the weights are equal; Manifest.json has new random identifiers, and may list its two items in
# another order; model.mlmodel differs too, since protobuf writes the entries of maps in an order that
# changes from process to process. Read as protobufs, all are equal. Whoever caches, signs or compares
# packages by their bytes must parse the model first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6 coremltools==9.0
cat > "$folder/convert.py" <<'PYTHON'
import sys

import coremltools
import torch

torch.manual_seed(0)
module = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32))
program = torch.export.export(module.eval(), (torch.zeros(1, 64),)).run_decompositions({})
target = coremltools.target.iOS18
model = coremltools.convert(program, minimum_deployment_target=target, skip_model_load=True)
model.save(sys.argv[1])
PYTHON
for number in 1 2 3 4 5 6; do
  PYTHONHASHSEED=1 "$folder/venv/bin/python" "$folder/convert.py" "$folder/$number.mlpackage" \
    > "$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
done
cat > "$folder/expected" <<'TEXT'
weight.bin: 1 of 6
Manifest.json: 6 of 6
model.mlmodel, bytes: more than 1
model.mlmodel, parsed: 1 of 6
TEXT
"$folder/venv/bin/python" - "$folder" > "$folder/seen" 2> "$folder/log" <<'PYTHON'
import sys
from pathlib import Path

from coremltools.proto.Model_pb2 import Model


def contents_of(name):
    return [path.read_bytes() for path in sorted(Path(sys.argv[1]).glob(f"*.mlpackage/**/{name}"))]


for name in ("weight.bin", "Manifest.json"):
    contents = contents_of(name)
    print(f"{name}: {len(set(contents))} of {len(contents)}")
models = contents_of("model.mlmodel")
print(f"model.mlmodel, bytes: {'more than 1' if len(set(models)) > 1 else 1}")
parsed = []
for content in models:
    model = Model()
    model.ParseFromString(content)
    if model not in parsed:
        parsed.append(model)
print(f"model.mlmodel, parsed: {len(parsed)} of {len(models)}")
PYTHON
diff "$folder/expected" "$folder/seen"
