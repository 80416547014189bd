"""Whisper's tokenizer from its tokens by rank alone, as a `tokenizer.json`.

The tokens with a name are numbered behind them: the ends of a text, languages, tasks, and the times
of a window.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from exporter.errors import ExportError
from exporter.tokenizer.byte_alphabet import byte_characters

END, START, NO_TIMESTAMPS = "<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>"
TRANSLATE, TRANSCRIBE = "<|translate|>", "<|transcribe|>"
BEHIND_LANGUAGES = (
    *(TRANSLATE, TRANSCRIBE, "<|startoflm|>", "<|startofprev|>", "<|nospeech|>"),
    NO_TIMESTAMPS,
)
# Codes of languages in the order of their tokens.
_LANGUAGES = (
    "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta no th "
    "ur hr bg lt la mi ml cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw gl mr "
    "pa si km sn yo so af oc ka be tg sd gu am yi lo uz fo ht ps tk nn mt sa lb my bo tl mg as tt "
    "haw ln ha ba jw su yue"
).split()


def named_tokens(count: int, vocab_size: int, times: int) -> list[str]:
    """Returns the texts of the tokens behind those with a rank, without those of times.

    Args:
        count: of tokens with a rank.
        times: of tokens of times.

    Raises:
        ExportError: the vocabulary has no place for them, or one for too many languages.
    """
    languages = vocab_size - count - times - len(BEHIND_LANGUAGES) - 2
    if not 1 <= languages <= len(_LANGUAGES):
        raise ExportError(
            f"A vocabulary of {vocab_size} with {count} ranked tokens has {languages} languages, "
            f"but 1 to {len(_LANGUAGES)} are known: take both from the same model."
        )
    codes = [f"<|{code}|>" for code in _LANGUAGES[:languages]]
    return [END, START, *codes, *BEHIND_LANGUAGES]


def tokenizer_json(ranked: Sequence[bytes], named: Sequence[str]) -> dict[str, Any]:
    """Returns what a tokenizer.json of byte-level BPE holds, with GPT-2's split of texts.

    Args:
        ranked: tokens in the order in which they are merged, single bytes first.
        named: those behind them.
    """
    ranks = {token: rank for rank, token in enumerate(ranked)}
    characters = byte_characters()

    def written(token: bytes) -> str:
        return "".join(characters[byte] for byte in token)

    merges = [
        [written(part) for part in _parts(token, ranks)] for token in ranked if len(token) > 1
    ]
    flags = {name: False for name in ("single_word", "lstrip", "rstrip", "normalized")}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    added = [
        {"id": len(ranked) + place, "content": text, **flags, "special": True}
        for place, text in enumerate(named)
    ]
    return {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {**level, "use_regex": True},
        "post_processor": None,
        "decoder": {**level, "use_regex": True},
        "model": {
            "type": "BPE",
            "vocab": {written(token): rank for token, rank in ranks.items()},
            "merges": merges,
        },
    }


def _parts(token: bytes, ranks: Mapping[bytes, int]) -> list[bytes]:
    """The two tokens that were merged to this one last: what merges of lower ranks leave of it."""
    parts = [token[place : place + 1] for place in range(len(token))]
    while len(parts) > 2:
        found = [ranks.get(left + right) for left, right in zip(parts, parts[1:], strict=False)]
        known = [rank for rank in found if rank is not None]
        if not known:
            break
        at = found.index(min(known))
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    if len(parts) != 2 or any(part not in ranks for part in parts):
        raise ExportError(
            f"The token {token!r} is not made of two others: take the tokenizer from the same "
            "model."
        )
    return parts
