#!/usr/bin/env bash
# safetensors 0.8.0 with torch 2.13.0: a tensor of float4_e2m1fn_x2, in which a byte holds two numbers.
#
# Expected: the header has the tensor's shape, as for every other type.
# Seen: the header counts numbers, torch counts pairs: (4, 8) is stored as [4, 16]. load_file returns
# (4, 8), and get_slice says [4, 16]. Whoever checks a header against a model's shapes, or computes the
# bytes of a row from it, is wrong by two for this type alone.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6 safetensors==0.8.0
cat > "$folder/expected" <<'TEXT'
torch has (4, 8), of 1 byte each
the header has F4 [4, 16] in 32 bytes
get_slice says [4, 16]
load_file returns (4, 8)
TEXT
"$folder/venv/bin/python" - "$folder/x.safetensors" > "$folder/seen" <<'PYTHON'
import json
import sys
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

path = sys.argv[1]
tensor = torch.zeros(4, 8, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
print(f"torch has {tuple(tensor.shape)}, of {tensor.element_size()} byte each")
save_file({"weight": tensor}, path)
content = Path(path).read_bytes()
entry = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["weight"]
first, end = entry["data_offsets"]
print(f"the header has {entry['dtype']} {entry['shape']} in {end - first} bytes")
with safe_open(path, "pt") as file:
    print(f"get_slice says {file.get_slice('weight').get_shape()}")
print(f"load_file returns {tuple(load_file(path)['weight'].shape)}")
PYTHON
diff "$folder/expected" "$folder/seen"
