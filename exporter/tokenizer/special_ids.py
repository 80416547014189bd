"""The tokens that begin and end a text, from the configs next to a tokenizer."""

import reprlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporter.json_object import read_object
from exporter.tokenizer.errors import TokenizerError
from exporter.tokenizer.layout import MAX_VOCAB_SIZE
from exporter.tokenizer.specification import TokenizerSpec


def apply_configs(spec: TokenizerSpec, beside: Path, model_directory: Path) -> None:
    """Lets the configs, if there are any, override the tokenizer's own BOS and end tokens.

    BOS comes from `tokenizer_config.json`, else `config.json`, else its `text_config`. If
    `tokenizer_config.json` has none and the tokenizer itself puts one before a text, that one
    stays. A text ends at any of the tokens that `generation_config.json`, `config.json`, its
    `text_config` and `tokenizer_config.json` name.

    Args:
        beside: the directory of the tokenizer and its `tokenizer_config.json`.
        model_directory: the directory of the other two; if they are missing there, those in
            `beside` are used.

    Raises:
        TokenizerError: a config is not readable JSON, or a field does not name a token.
    """
    model = _read(model_directory, "config.json") or _read(beside, "config.json")
    generation = _read(model_directory, "generation_config.json")
    generation = generation or _read(beside, "generation_config.json")
    tokenizer = _read(beside, "tokenizer_config.json")
    begins = model.ids("bos_token_id") or model.text.ids("bos_token_id")
    if "bos_token" in tokenizer.fields:
        named = _id_of(spec, tokenizer.token("bos_token"))
        if named is not None or not spec.adds_bos:
            spec.bos_id = named
    elif begins:
        spec.bos_id = begins[0]
    if isinstance(tokenizer.fields.get("add_bos_token"), bool):
        spec.adds_bos = tokenizer.fields["add_bos_token"]
    spec.adds_bos = spec.adds_bos and spec.bos_id is not None
    ends = [id for config in (generation, model, model.text) for id in config.ids("eos_token_id")]
    named = _id_of(spec, tokenizer.token("eos_token"))
    ends += [] if named is None else [named]
    if ends:
        spec.eos_ids = list(dict.fromkeys(ends))


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

    def token(self, name: str) -> str | None:
        """Returns the text of a field that names a token, directly or in an object; None for
        null."""
        value = self.fields.get(name)
        content = value.get("content") if isinstance(value, dict) else value
        if content is not None and not isinstance(content, str):
            raise self._wrong(name, value, "a token's text, an object that holds it, or null")
        return content

    def _wrong(self, name: str, value: object, wanted: str) -> TokenizerError:
        return TokenizerError(
            f"{self.path}: {name} is {reprlib.repr(value)}; it must be {wanted}: download the file "
            "again."
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
