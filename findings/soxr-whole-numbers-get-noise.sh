#!/usr/bin/env bash
# soxr 1.1.0, which resamples for librosa and for many who prepare sound for speech models.
#
# Expected: int16 samples give what the same samples as float give, rounded; silence stays silent; and
# from 16 kHz to 16 kHz nothing changes.
# Seen: int16 gets dither, noise of one step up or down, which the Python package cannot turn off. Zeros
# become -1, 0 and 1, also where both rates are equal. Log-mel features of silence, and detectors of
# digital silence, see noise near -90 dB. int32 and floats get none: convert to float first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 soxr==1.1.0
cat > "$folder/expected" <<'TEXT'
int16, 48000 to 16000 Hz: zeros become [-1, 0, 1]
int16, 16000 to 16000 Hz: zeros become [-1, 0, 1]
int32, 48000 to 16000 Hz: zeros become [0]
int32, 16000 to 16000 Hz: zeros become [0]
float32, 48000 to 16000 Hz: zeros become [0.0]
float32, 16000 to 16000 Hz: zeros become [0.0]
noise of int16 is of at most 1 step, and differs from the rounded float's: True
TEXT
"$folder/venv/bin/python" - > "$folder/seen" <<'PYTHON'
import numpy as np
import soxr

for kind in (np.int16, np.int32, np.float32):
    for rate in (48000, 16000):
        values = np.unique(soxr.resample(np.zeros(48000, kind), rate, 16000)).tolist()
        print(f"{kind.__name__}, {rate} to 16000 Hz: zeros become {values}")
sine = np.rint(1000 * np.sin(np.arange(48000) * 0.05))
rounded = np.rint(soxr.resample(sine, 48000, 16000))
noise = soxr.resample(sine.astype(np.int16), 48000, 16000) - rounded
seen = np.abs(noise).max() == 1 and (noise != 0).mean() > 0.1
print(f"noise of int16 is of at most 1 step, and differs from the rounded float's: {seen}")
PYTHON
diff "$folder/expected" "$folder/seen"
