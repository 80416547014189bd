"""The embedded model with other tokenizers."""

import json
import shutil
from pathlib import Path
from typing import Any

from support.exported import Quiet
from support.trained_tokenizers import train_prepending

import exporter
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.scheme import Scheme

EMBEDDED = Path(exporter.__file__).parent / "embedded"
# In the places of the last tokens: special ones, one of which ends an answer, and two of text.
SPECIAL = ["<|python_tag|>", "[TOOL_CALLS]", "<|call|>"]
OF_TEXT = ["<tool_call>", "</tool_call>"]
END = "<|call|>"


def export_tool_model(directory: Path) -> Path:
    """A model for the CPU delegate whose tokenizer has SPECIAL and OF_TEXT as added tokens."""
    tokenizer = json.loads((EMBEDDED / "tokenizer.json").read_text(encoding="utf-8"))
    model, names = tokenizer["model"], [*SPECIAL, *OF_TEXT]
    ids = {**model["vocab"], **{t["content"]: t["id"] for t in tokenizer["added_tokens"]}}
    first = max(ids.values()) + 1 - len(names)
    gone = {token for token, number in ids.items() if number >= first}
    model["vocab"] = {t: number for t, number in model["vocab"].items() if t not in gone}
    pairs = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
    model["merges"] = [pair for pair in pairs if gone.isdisjoint({*pair, "".join(pair)})]
    tokenizer["added_tokens"] += [
        _added(name, first + at, name in SPECIAL) for at, name in enumerate(names)
    ]
    return _export(directory, tokenizer, [first + SPECIAL.index(END)])


def export_prepending_model(directory: Path) -> Path:
    """A model for the CPU delegate whose tokenizer takes a space from a text's beginning, as Llama
    2's does; [TOOL_CALLS] is special."""
    tokenizer = json.loads(train_prepending())
    number = len(tokenizer["model"]["vocab"])
    tokenizer["added_tokens"].append(_added("[TOOL_CALLS]", number, True))
    return _export(directory, tokenizer, [])


def export_suffix_model(directory: Path) -> Path:
    """A model for the CPU delegate whose tokens read otherwise at the end of a text; [CLS] is
    special."""
    tokens = ["[UNK]", "[CLS]", "a", "b", "a</w>", "b</w>"]
    model = {"type": "BPE", "merges": [], "unk_token": "[UNK]", "end_of_word_suffix": "</w>"}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [_added("[UNK]", 0, True), _added("[CLS]", 1, True)],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "decoder": {"type": "BPEDecoder", "suffix": "</w>"},
        "model": {**model, "vocab": {token: number for number, token in enumerate(tokens)}},
    }
    return _export(directory, tokenizer, [])


def _added(name: str, number: int, special: bool) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": name, **flags, "special": special}


def _export(directory: Path, tokenizer: dict[str, Any], ends: list[int]) -> Path:
    checkpoint = directory / "checkpoint"
    checkpoint.mkdir()
    shutil.copy(EMBEDDED / "model.safetensors", checkpoint)
    (checkpoint / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    config = json.loads((EMBEDDED / "config.json").read_text())
    config["eos_token_id"] = [config["eos_token_id"], *ends]
    (checkpoint / "config.json").write_text(json.dumps(config))
    options = ExportOptions(
        model=str(checkpoint), out=directory / "model.pte", scheme=Scheme("rtn4"), delegate="cpu"
    )
    return export_model(options, Quiet()).out
