"""The steps that a class of `transformers` 5 puts in the place of those of a `tokenizer.json`.

Such a class takes the vocabulary, the merges and the post-processor from the file; the rest of the
file has no effect. So does the reader of a SentencePiece model without a `tokenizer.json`.
"""

import json
from typing import Any

from tokenizers import Regex, decoders, normalizers, pre_tokenizers

from exporter.tokenizer.library import load_library_tokenizer, settings_of
from exporter.tokenizer.split_patterns import QWEN2_PATTERN, QWEN35_PATTERN
from exporter.tokenizer.split_steps import SPACE
from exporter.tokenizer.tokenizer_class import (
    CODE_LLAMA,
    COHERE,
    GEMMA,
    GPT2,
    LLAMA,
    NEOX,
    QWEN2,
    QWEN35,
)

Json = dict[str, Any]

_OF_BYTES = dict.fromkeys(("unk_token", "dropout"), None) | {
    **dict.fromkeys(("byte_fallback", "fuse_unk", "ignore_merges"), False),
    **dict.fromkeys(("continuing_subword_prefix", "end_of_word_suffix"), ""),
}
_OF_CHARACTERS = _OF_BYTES | {"byte_fallback": True, "fuse_unk": True}


def class_steps(kind: str, config: Json) -> Json | None:
    """The parts of a `tokenizer.json` that a class writes itself; None if it takes the file's.

    Args:
        config: the fields of `tokenizer_config.json`.

    Returns:
        `normalizer`, `pre_tokenizer`, `decoder`, and the settings of the BPE `model`.
    """
    prefix = config.get("add_prefix_space")
    if kind in (LLAMA, CODE_LLAMA):
        return _llama_steps(kind, config, prefix is None or bool(prefix))
    if kind == GEMMA:
        split = pre_tokenizers.Split(" ", "merged_with_previous")
        model = {**_OF_CHARACTERS, "unk_token": _text(config.get("unk_token"), "<unk>")}
        return _steps(normalizers.Replace(" ", SPACE), split, _character_decoder(), model)
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=bool(prefix))
    if kind == GPT2:
        return _steps(None, byte_level, decoders.ByteLevel(), _OF_BYTES)
    if kind == NEOX:
        return _steps(normalizers.NFC(), byte_level, decoders.ByteLevel(), _OF_BYTES)
    if kind == COHERE:
        digits = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), byte_level])
        return _steps(normalizers.NFC(), digits, decoders.ByteLevel(), _OF_BYTES)
    if kind in (QWEN2, QWEN35):
        pattern = Regex(QWEN2_PATTERN if kind == QWEN2 else QWEN35_PATTERN)
        whole = pre_tokenizers.ByteLevel(add_prefix_space=bool(prefix), use_regex=False)
        split = pre_tokenizers.Split(pattern, "isolated")
        both = pre_tokenizers.Sequence([split, whole])
        return _steps(normalizers.NFC(), both, decoders.ByteLevel(), _OF_BYTES)
    return None


def sentencepiece_steps(charsmap: bytes, byte_fallback: bool, unknown: str) -> Json:
    """Those around a SentencePiece model that no class of its own reads."""
    steps: list[Any] = [normalizers.Precompiled(charsmap)] if charsmap else []
    normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])
    decoder = _character_decoder() if byte_fallback else decoders.Replace(SPACE, " ")
    model = {**_OF_CHARACTERS, "byte_fallback": byte_fallback, "unk_token": unknown}
    return _steps(normalizer, None, decoder, model)


def changed_parts(document: Json, steps: Json) -> list[str]:
    """The parts of a `tokenizer.json` without which a class gives other ids."""
    model = document["model"]
    least = {"type": "BPE", "vocab": {"a": 0}, "merges": []}
    bare = {**document, "model": least, "added_tokens": [], "post_processor": None}
    library = load_library_tokenizer(bare)
    parts = {"normalizer": library.normalizer, "pre_tokenizer": library.pre_tokenizer}
    changed = [
        name for name, part in parts.items() if _flat(settings_of(part)) != _flat(steps[name])
    ]
    never_unknown = model.get("byte_fallback") and steps["model"]["byte_fallback"]
    return changed + [
        f"model.{name}"
        for name, value in steps["model"].items()
        if (model.get(name) or None) != (value or None)
        and not (name == "unk_token" and never_unknown)
    ]


def _llama_steps(kind: str, config: Json, prefix: bool) -> Json:
    always = kind == LLAMA and bool(config.get("legacy"))
    scheme = ("always" if always else "first") if prefix else "never"
    metaspace = pre_tokenizers.Metaspace(SPACE, prepend_scheme=scheme, split=False)
    unknown = _text(config.get("unk_token"), "<unk>") if kind == CODE_LLAMA else None
    decoder = _character_decoder(strips=prefix or kind == CODE_LLAMA)
    return _steps(None, metaspace, decoder, {**_OF_CHARACTERS, "unk_token": unknown})


def _character_decoder(strips: bool = False) -> Any:
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence([*steps, decoders.Strip(" ", left=1)] if strips else steps)


def _steps(normalizer: Any, pre_tokenizer: Any, decoder: Any, model: Json) -> Json:
    parts = {"normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "decoder": decoder}
    return {
        **{name: part and json.loads(part.__getstate__()) for name, part in parts.items()},
        "model": model,
    }


def _text(token: Any, default: str) -> str:
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else default


def _flat(step: Json | None) -> list[Json]:
    """A component's parts, without what has no effect on ids."""
    if step is None:
        return []
    if step["type"] == "Sequence":
        parts = step.get("normalizers") or step.get("pretokenizers") or []
        return [inner for part in parts for inner in _flat(part)]
    return [{name: value for name, value in step.items() if name != "trim_offsets"}]
