#!/usr/bin/env bash
# peft 0.21.2: an adapter whose alpha_pattern has a rule for one layer and a rule for all of its kind.
#
# Expected: a saved adapter, loaded again, is the adapter that was trained, whichever rule comes first.
# Seen: of two rules that fit a layer, the first of the dictionary counts; save_pretrained sorts the
# rules by name. Where the general rule was given first and its name sorts behind, the loaded adapter
# scales that layer by the other rule, here 16 instead of 4, without a warning. A reader of the file
# cannot tell what was trained.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6 transformers==5.23.0 peft==0.21.2
cat > "$folder/expected" <<'TEXT'
trained: [4.0, 4.0], loaded: [4.0, 16.0], outputs differ: True
trained: [4.0, 16.0], loaded: [4.0, 16.0], outputs differ: False
TEXT
"$folder/venv/bin/python" - "$folder" > "$folder/seen" 2> "$folder/log" <<'PYTHON' || { cat "$folder/log"; exit 1; }
import sys

import torch
from peft import LoraConfig, PeftModel, get_peft_model


def base():
    torch.manual_seed(0)
    layers = [torch.nn.ModuleDict({"q_proj": torch.nn.Linear(8, 8)}) for _ in range(2)]
    return torch.nn.Sequential(*layers)


def scales(model):
    return [m.scaling["default"] for m in model.modules() if hasattr(m, "scaling")]


def run(model):
    hidden = torch.ones(1, 8)
    for layer in model.base_model.model:
        hidden = layer["q_proj"](hidden)
    return hidden


general, single = ("q_proj", 16), ("1.q_proj", 64)
for rules in ((general, single), (single, general)):
    config = LoraConfig(
        r=4, target_modules=["q_proj"], alpha_pattern=dict(rules), init_lora_weights=False
    )
    trained = get_peft_model(base(), config)
    trained.save_pretrained(sys.argv[1] + "/adapter")
    loaded = PeftModel.from_pretrained(base(), sys.argv[1] + "/adapter")
    differ = not torch.equal(run(trained), run(loaded))
    print(f"trained: {scales(trained)}, loaded: {scales(loaded)}, outputs differ: {differ}")
PYTHON
diff "$folder/expected" "$folder/seen"
