"""A SentencePiece model as the `tokenizer.json` that a class of `transformers` 5 makes of it.

Its pieces merge in the order of their ids, not of their scores, and the class says how a text is
normalized, not the model.
"""

from pathlib import Path
from typing import Any

from exporter.tokenizer.class_steps import class_steps, sentencepiece_steps
from exporter.tokenizer.errors import TokenizerError
from exporter.tokenizer.sentencepiece_model import KINDS, PROTOS, parsed
from exporter.tokenizer.special_tokens import CONFIG, SpecialTokens
from exporter.tokenizer.tokenizer_class import OF_SENTENCEPIECE

Json = dict[str, Any]


def sentencepiece_document(path: Path, special: SpecialTokens) -> tuple[Json, list[str]] | None:
    """The `tokenizer.json` and notes on it; None where the files name no class, so that the model
    is read as SentencePiece reads it.

    Raises:
        TokenizerError: the class does not read such a model.
    """
    if not special.names_class and (not special.kind or special.kind not in OF_SENTENCEPIECE):
        return None
    model = parsed(path)
    trainer, normalizer = model.trainer_spec, model.normalizer_spec
    unigram = trainer.model_type == PROTOS.TrainerSpec.UNIGRAM
    class_name = special.kind or "TokenizersBackend"
    if special.kind not in OF_SENTENCEPIECE or (unigram and special.kind):
        raise _not_read(path, class_name, special, "unigram" if unigram else "SentencePiece")
    if not unigram and trainer.model_type != PROTOS.TrainerSpec.BPE:
        raise _not_read(path, class_name, special, "word or character")
    steps = class_steps(special.kind, special.config) or sentencepiece_steps(
        normalizer.precompiled_charsmap, trainer.byte_fallback, trainer.unk_piece
    )
    document = {
        "version": "1.0",
        **steps,
        "model": _unigram(model) if unigram else {"type": "BPE", **steps["model"], **_bpe(model)},
        "added_tokens": [] if special.extra else _added_tokens(model),
        "post_processor": None,
    }
    ignored = {
        "add_dummy_prefix": normalizer.add_dummy_prefix and not _prepends(steps),
        "remove_extra_whitespaces": normalizer.remove_extra_whitespaces,
        "precompiled_charsmap": normalizer.precompiled_charsmap
        and (steps["normalizer"] or {}).get("type") != "Sequence",
    }
    fields = ", ".join(name for name, is_ignored in ignored.items() if is_ignored)
    notes = []
    if fields:
        notes.append(
            f"As in transformers 5, {class_name} reads {path.name} without its {fields}. A "
            "tokenizer.json of the model's own has such steps."
        )
    return document, notes


def named_pieces(path: Path) -> dict[str, str]:
    """The tokens that a model itself names, if no class does."""
    trainer = parsed(path).trainer_spec
    own = {
        "bos_token": (trainer.bos_id, trainer.bos_piece),
        "eos_token": (trainer.eos_id, trainer.eos_piece),
        "unk_token": (trainer.unk_id, trainer.unk_piece),
    }
    return {name: text for name, (number, text) in own.items() if number >= 0 and text}


def _bpe(model: Any) -> Json:
    vocab = {piece.piece: number for number, piece in enumerate(model.pieces)}
    merges = []
    for piece, number in vocab.items():
        pairs = ((piece[:cut], piece[cut:]) for cut in range(1, len(piece)))
        merges += [
            (number, len(left), len(right), vocab[left], vocab[right], left, right)
            for left, right in pairs
            if left in vocab and right in vocab
        ]
    return {"vocab": vocab, "merges": [[left, right] for *_, left, right in sorted(merges)]}


def _unigram(model: Any) -> Json:
    return {
        "type": "Unigram",
        "unk_id": model.trainer_spec.unk_id,
        "vocab": [[piece.piece, piece.score] for piece in model.pieces],
        "byte_fallback": model.trainer_spec.byte_fallback,
    }


def _added_tokens(model: Any) -> list[Json]:
    """Its control pieces, which are special, and its user-defined ones, which are not."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return [
        {"id": number, "content": piece.piece, **flags, "special": piece.type == KINDS.CONTROL}
        for number, piece in enumerate(model.pieces)
        if piece.type in (KINDS.CONTROL, KINDS.USER_DEFINED) and piece.piece
    ]


def _prepends(steps: Json) -> bool:
    step = steps["pre_tokenizer"] or {}
    return step.get("type") == "Metaspace" and step["prepend_scheme"] != "never"


def _not_read(path: Path, class_name: str, special: SpecialTokens, kind: str) -> TokenizerError:
    return TokenizerError(
        f"{special.directory / CONFIG}: the class {class_name} does not read a {kind} model such "
        f"as {path.name}. Add the model's own tokenizer.json, or take the tokenizer_class out to "
        "read the model as SentencePiece does."
    )
