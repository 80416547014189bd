"""What the configs beside a tokenizer say of the tokens that begin and end a text."""

from pathlib import Path
from typing import Any

from exporter.json_object import read_object
from exporter.tokenizer.errors import TokenizerError
from exporter.tokenizer.specification import TokenizerSpec


def apply_configs(spec: TokenizerSpec, beside: Path, model_directory: Path) -> None:
    """Lets the configs, where there are any, overrule what the tokenizer says.

    BOS is `tokenizer_config.json`'s, else `config.json`'s; one that the tokenizer itself puts
    before a text stays where `tokenizer_config.json` names none. A text ends at any of the tokens
    that `generation_config.json`, `config.json` and `tokenizer_config.json` name.

    Args:
        beside: the directory of the tokenizer, and of its `tokenizer_config.json`.
        model_directory: that of the other two; those beside the tokenizer stand in for them.

    Raises:
        TokenizerError: a config is not readable JSON.
    """
    model = _read(model_directory / "config.json") or _read(beside / "config.json")
    generation = _read(model_directory / "generation_config.json")
    generation = generation or _read(beside / "generation_config.json")
    tokenizer = _read(beside / "tokenizer_config.json")
    if "bos_token" in tokenizer:
        named = _id_of(spec, tokenizer["bos_token"])
        if named is not None or not spec.adds_bos:
            spec.bos_id = named
    elif isinstance(model.get("bos_token_id"), int):
        spec.bos_id = model["bos_token_id"]
    if isinstance(tokenizer.get("add_bos_token"), bool):
        spec.adds_bos = tokenizer["add_bos_token"]
    spec.adds_bos = spec.adds_bos and spec.bos_id is not None
    ends = [
        *_ids(generation.get("eos_token_id")),
        *_ids(model.get("eos_token_id")),
        *_ids(_id_of(spec, tokenizer.get("eos_token"))),
    ]
    if ends:
        spec.eos_ids = list(dict.fromkeys(ends))


def _read(path: Path) -> dict[str, Any]:
    return read_object(path, TokenizerError) if path.is_file() else {}


def _ids(value: object) -> list[int]:
    values = value if isinstance(value, list) else [value]
    return [number for number in values if isinstance(number, int)]


def _id_of(spec: TokenizerSpec, token: object) -> int | None:
    """The id of a token named by its text, or by an object that holds its text."""
    content = token.get("content") if isinstance(token, dict) else token
    for added in spec.added_tokens:
        if added.content == content:
            return added.id
    text = content.encode("utf-8") if isinstance(content, str) and content else None
    return spec.tokens.index(text) if text in spec.tokens else None
