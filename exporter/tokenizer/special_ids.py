"""The tokens that begin and end a text, from the configs next to a tokenizer."""

import reprlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporter.json_object import read_object
from exporter.tokenizer.errors import TokenizerError
from exporter.tokenizer.layout import MAX_VOCAB_SIZE
from exporter.tokenizer.source import TokenizerKind
from exporter.tokenizer.special_tokens import CONFIG, SpecialTokens
from exporter.tokenizer.specification import TokenizerSpec
from exporter.tokenizer.tokenizer_class import CODE_LLAMA, NEOX


def apply_configs(
    spec: TokenizerSpec, special: SpecialTokens, model_directory: Path, kind: TokenizerKind
) -> None:
    """Lets the configs, if there are any, override the tokenizer's own BOS and end tokens.

    What puts a token before every text (a `post_processor`) says itself which. Otherwise BOS is the
    named one, else that of `config.json`, else of its `text_config`. A text ends at any of the
    tokens that `generation_config.json`, `config.json`, its `text_config` and
    `tokenizer_config.json` name.

    Args:
        model_directory: the directory of the model's own configs; if they are missing there, those
            beside the tokenizer are used.

    Raises:
        TokenizerError: a config is not readable JSON, or a field does not name a token.
    """
    beside = special.directory
    model = _read(model_directory, "config.json") or _read(beside, "config.json")
    generation = _read(model_directory, "generation_config.json")
    generation = generation or _read(beside, "generation_config.json")
    begins = model.ids("bos_token_id") or model.text.ids("bos_token_id")
    if "bos_token" in special.given:
        named = _id_of(spec, special.text("bos_token"))
        keeps = spec.adds_bos and (named is None or kind is TokenizerKind.TOKENIZER_JSON)
        if not keeps or special.kind in _AGAIN:
            spec.bos_id = named
    elif begins and not (spec.adds_bos and kind is TokenizerKind.TOKENIZER_JSON):
        spec.bos_id = begins[0]
    spec.adds_bos = _adds_bos(spec, special, kind) and spec.bos_id is not None
    ends = [id for config in (generation, model, model.text) for id in config.ids("eos_token_id")]
    named = _id_of(spec, special.text("eos_token"))
    ends += [] if named is None else [named]
    if ends:
        spec.eos_ids = list(dict.fromkeys(ends))
    if kind is not TokenizerKind.TOKENIZER_JSON and special.config.get("add_eos_token") is True:
        spec.ends_texts = bool(spec.eos_ids)


_AGAIN = {CODE_LLAMA: True, NEOX: False}  # these classes decide anew, whatever a file says


def _adds_bos(spec: TokenizerSpec, special: SpecialTokens, kind: TokenizerKind) -> bool:
    """Whether a text begins with BOS, as the class that reads the tokenizer decides."""
    asked = special.config.get("add_bos_token")
    asked = asked if isinstance(asked, bool) else None
    if kind is not TokenizerKind.TOKENIZER_JSON:
        if asked is None and special.names_class and kind is TokenizerKind.SENTENCEPIECE:
            asked = _AGAIN.get(special.kind, False)
            if asked != spec.adds_bos:
                spec.notes.append(
                    f"{CONFIG} has no add_bos_token: as in transformers 5, no text begins with BOS."
                )
        return spec.adds_bos if asked is None else asked
    adds = _AGAIN.get(special.kind, spec.adds_bos)
    if asked not in (None, adds):
        spec.notes.append(
            f"{CONFIG} has add_bos_token {str(asked).lower()}, but as in transformers 5 "
            f"{special.kind if special.kind in _AGAIN else 'the post_processor of tokenizer.json'} "
            f"decides: {'every' if adds else 'no'} text begins with BOS."
        )
    return adds


@dataclass(frozen=True)
class _Config:
    """The fields of one file; empty if there is no such file."""

    path: Path
    fields: dict[str, Any]

    def __bool__(self) -> bool:
        return bool(self.fields)

    @property
    def text(self) -> "_Config":
        """The fields of the language model, if the file has them apart."""
        inner = self.fields.get("text_config")
        return _Config(self.path, inner if isinstance(inner, dict) else {})

    def ids(self, name: str) -> list[int]:
        """Returns the ids of a field that holds one id, a list of ids, or null."""
        value = self.fields.get(name)
        ids = value if isinstance(value, list) else [] if value is None else [value]
        if not all(type(number) is int and 0 <= number < MAX_VOCAB_SIZE for number in ids):
            raise self._wrong(name, value, "a token id, a list of them, or null")
        return ids

    def _wrong(self, name: str, value: object, expected: str) -> TokenizerError:
        return TokenizerError(
            f"{self.path}: {name} is {reprlib.repr(value)}; it must be {expected}: download "
            "the file again."
        )


def _read(directory: Path, name: str) -> _Config:
    path = directory / name
    return _Config(path, read_object(path, TokenizerError) if path.is_file() else {})


def _id_of(spec: TokenizerSpec, token: str | None) -> int | None:
    """Returns the id of a token by its text; None if there is none."""
    if not token:
        return None
    for added in spec.added_tokens:
        if added.content == token:
            return added.id
    text = token.encode("utf-8", "surrogatepass")
    return spec.tokens.index(text) if text in spec.tokens else None
