#!/usr/bin/env bash
# mlx 0.32.4 on Linux's CPU: mx.quantize in its default mode, affine.
#
# Expected: what its documentation computes: scale = (max - min) / 15, so never negative; bias = min.
# Seen: the bias is the end of the group that lies farther from zero. Where that is the maximum, the
# scale is negative and code 0 stands for the maximum. The scale is then bent so that zero is exact, for
# which the other end may be cut: -0.30 comes back as -0.25. A converter that takes the logarithm of
# scales, stores them unsigned, or takes the bias for the minimum fails on about half of all groups.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 mlx==0.32.4 mlx-cpu==0.32.4
cat > "$folder/expected" <<'TEXT'
-1.00 to 0.50: scale +0.1000, bias -1.00, codes 0 to 15; the ends are -1.000 and 0.500
-0.50 to 1.00: scale -0.1000, bias +1.00, codes 15 to 0; the ends are -0.500 and 1.000
-0.30 to 1.00: scale -0.0833, bias +1.00, codes 15 to 0; the ends are -0.250 and 1.000
+5.00 to 6.00: scale -0.0667, bias +6.00, codes 15 to 0; the ends are 5.000 and 6.000
of 1000 groups of normal weights, half have a negative scale: True
TEXT
"$folder/venv/bin/python" - > "$folder/seen" <<'PYTHON'
import mlx.core as mx
import numpy as np

for low, high in ((-1, 0.5), (-0.5, 1), (-0.3, 1), (5, 6)):
    weights = mx.array(np.linspace(low, high, 64, dtype=np.float32)[None])
    packed, scale, bias = mx.quantize(weights, group_size=64, bits=4)
    row = np.array(mx.dequantize(packed, scale, bias, group_size=64, bits=4))[0]
    first, last = packed[0, 0].item() & 15, packed[0, -1].item() >> 28
    print(
        f"{low:+.2f} to {high:.2f}: scale {scale.item():+.4f}, bias {bias.item():+.2f}, "
        f"codes {first} to {last}; the ends are {row[0]:.3f} and {row[-1]:.3f}"
    )
weights = np.random.default_rng(0).standard_normal((1000, 64)).astype(np.float32)
share = np.mean(np.array(mx.quantize(mx.array(weights), group_size=64, bits=4)[1]) < 0)
print(f"of 1000 groups of normal weights, half have a negative scale: {0.45 < share < 0.55}")
PYTHON
diff "$folder/expected" "$folder/seen"
