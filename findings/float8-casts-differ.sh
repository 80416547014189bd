#!/usr/bin/env bash
# torch 2.13.0 and ml_dtypes 0.6.0 (the types of JAX and of numpy), which cast float32 to 8 bits.
#
# Expected: the same type gives the same bytes in both: NaN for what float8_e4m3fn cannot hold, and no
# value for a scale (float8_e8m0fnu) that is negative.
# Seen: in torch, float8_e4m3fn holds 448 for 500, for a million and for infinity (NaN in ml_dtypes),
# but float8_e5m2 does not saturate in either. A float8_e8m0fnu of -1 is 1 in torch, and of 0 the least
# power of two; ml_dtypes has NaN for both. Weights that were quantized with one are not those of the
# other, and torch's infinite becomes finite.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6 ml_dtypes==0.6.0
cat > "$folder/expected" <<'TEXT'
float8_e4m3fn of [448.0, 500.0, 1000000.0, inf, -500.0]
  torch     [448.0, 448.0, 448.0, 448.0, -448.0]
  ml_dtypes [448.0, nan, nan, nan, nan]
float8_e5m2 of [57344.0, 65504.0, 1000000.0, inf]
  torch     [57344.0, inf, inf, inf]
  ml_dtypes [57344.0, inf, inf, inf]
float8_e8m0fnu of [3.0, -1.0, 0.0]
  torch     [4.0, 1.0, 5.877471754111438e-39]
  ml_dtypes [4.0, nan, nan]
TEXT
"$folder/venv/bin/python" - > "$folder/seen" <<'PYTHON'
import ml_dtypes
import numpy as np
import torch

CASES = {
    "float8_e4m3fn": [448, 500, 1e6, np.inf, -500],
    "float8_e5m2": [57344, 65504, 1e6, np.inf],
    "float8_e8m0fnu": [3, -1, 0],
}
for name, values in CASES.items():
    array = np.array(values, np.float32)
    with np.errstate(all="ignore"):
        other = array.astype(getattr(ml_dtypes, name)).astype(np.float32)
    print(f"{name} of {array.tolist()}")
    print("  torch    ", torch.from_numpy(array).to(getattr(torch, name)).float().tolist())
    print("  ml_dtypes", other.tolist())
PYTHON
diff "$folder/expected" "$folder/seen"
