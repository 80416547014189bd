#!/usr/bin/env bash
# torch 2.13.0 and Pillow 13.0.0: interpolate(mode="bicubic"), where a picture is made larger.
#
# Expected: antialias=True matters for smaller pictures alone; nothing can alias in a larger one, and for
# bilinear both are the same.
# Seen: the option chooses the curve too: a = -0.75 without it, a = -0.5, Pillow's, with it. Edges
# overshoot by 10% of their height, or by 7%. A processor of pictures that sets the option only where it
# makes them smaller, to match Pillow, does not match it for small pictures.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6 pillow==13.0.0
cat > "$folder/expected" <<'TEXT'
bilinear, torch, antialias=False: 0.0 0.0 0.0 25.0 75.0 100.0 100.0 100.0
bilinear, torch, antialias=True: 0.0 0.0 0.0 25.0 75.0 100.0 100.0 100.0
bilinear, Pillow: 0.0 0.0 0.0 25.0 75.0 100.0 100.0 100.0
bicubic, torch, antialias=False: 0.0 -3.5 -10.5 22.7 77.3 110.5 103.5 100.0
bicubic, torch, antialias=True: 0.0 -2.3 -7.0 20.3 79.7 107.0 102.3 100.0
bicubic, Pillow: 0.0 -2.3 -7.0 20.3 79.7 107.0 102.3 100.0
TEXT
"$folder/venv/bin/python" - > "$folder/seen" <<'PYTHON'
import numpy as np
import torch
from PIL import Image

edge = np.repeat(np.float32([0, 100]), 4)[None]  # one row
for mode in ("bilinear", "bicubic"):
    rows = {
        f"torch, antialias={antialias}": torch.nn.functional.interpolate(
            torch.from_numpy(edge)[None, None], size=(1, 16), mode=mode, antialias=antialias
        )[0, 0, 0].numpy()
        for antialias in (False, True)
    }
    picture = Image.fromarray(edge).resize((16, 1), Image.Resampling[mode.upper()])
    rows["Pillow"] = np.asarray(picture)[0]
    for name, row in rows.items():
        print(f"{mode}, {name}: {' '.join(f'{value:.1f}' for value in row[4:12])}")
PYTHON
diff "$folder/expected" "$folder/seen"
