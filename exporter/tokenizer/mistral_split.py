"""Mistral's split of a text, which is wrong in files that old versions of `transformers` wrote.

`transformers` 5 puts the right one there if `fix_mistral_regex` of `tokenizer_config.json` is true;
otherwise it keeps that of the file.
"""

from typing import Any

from exporter.tokenizer.special_tokens import CONFIG, SpecialTokens
from exporter.tokenizer.split_patterns import TEKKEN_PATTERN
from exporter.tokenizer.tokenizer_class import is_old_mistral

Json = dict[str, Any]

_FIX = "fix_mistral_regex"
_LEAST_TOKENS = 100_001  # of the vocabularies whose pattern was wrong
_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
_SPLIT = {
    "type": "Split",
    "pattern": {"Regex": TEKKEN_PATTERN},
    "behavior": "Isolated",
    "invert": False,
}


def split_as_mistral(document: Json, special: SpecialTokens) -> tuple[Json, list[str]]:
    """A `tokenizer.json` with the split that `transformers` gives it, and a note if it differs from
    Mistral's."""
    current = document.get("pre_tokenizer")
    if not is_old_mistral(special.model) or current is None or _tokens(document) < _LEAST_TOKENS:
        return document, []
    parts = current["pretokenizers"] if current["type"] == "Sequence" else [current]
    if special.config.get(_FIX):
        rest = parts[1:] if current["type"] == "Sequence" else [current]
        if current["type"] == "Metaspace":
            rest = [_BYTES]
        steps = {"type": "Sequence", "pretokenizers": [_SPLIT, *rest]}
        return {**document, "pre_tokenizer": steps}, []
    if any(part.get("pattern") == _SPLIT["pattern"] for part in parts):
        return document, []
    return document, [
        "tokenizer.json splits texts by another pattern than Mistral's, and so does transformers "
        f"5; to use Mistral's, set {_FIX} of {special.directory / CONFIG} to true."
    ]


def _tokens(document: Json) -> int:
    model = document["model"]["vocab"]
    known = set(model) if isinstance(model, dict) else {piece for piece, _ in model}
    added = document.get("added_tokens") or ()
    return len(known | {token["content"] for token in added})
