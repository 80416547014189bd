"""A `tokenizer.json` with the tokens that the files beside it add; GPT-2's pair of files as one."""

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken

from exporter.json_object import read_object
from exporter.tokenizer.errors import TokenizerError
from exporter.tokenizer.layout import LayoutError, check_document, check_vocab_and_merges
from exporter.tokenizer.library import load_library_tokenizer
from exporter.tokenizer.source import TokenizerKind, TokenizerSource
from exporter.tokenizer.special_tokens import CONFIG, SpecialTokens
from exporter.tokenizer.tokenizer_class import GPT2

GPT2_END = "<|endoftext|>"

Json = dict[str, Any]


def tokenizer_document(source: TokenizerSource, special: SpecialTokens) -> Json:
    """What a `tokenizer.json`, or a `vocab.json` with its merges, holds.

    Raises:
        TokenizerError: a file is missing or damaged, or the files contradict each other.
    """
    if source.kind is TokenizerKind.TOKENIZER_JSON:
        document = read_object(source.path, TokenizerError)
    else:
        document = _gpt2_document(source, special)
    try:
        check_document(document)
        present = [AddedToken(**_flags(token)) for token in document.get("added_tokens") or ()]
        new = special.to_add(present)
        if not new:
            return document
        library = load_library_tokenizer(document)
    except LayoutError as error:
        raise damaged(source.path, str(error)) from None
    library.add_tokens(new)
    special.check_ids(
        {token.content: id for id, token in library.get_added_tokens_decoder().items()}
    )
    return {**document, "added_tokens": json.loads(library.to_str())["added_tokens"]}


def damaged(path: Path, why: str) -> TokenizerError:
    return TokenizerError(f"{path} is not a valid {path.name} ({why}): download the file again.")


def _flags(token: Json) -> Json:
    names = ("content", "special", "normalized", "lstrip", "rstrip", "single_word")
    return {name: token[name] for name in names if token.get(name) is not None}


def _gpt2_document(source: TokenizerSource, special: SpecialTokens) -> Json:
    vocab = read_object(source.path, TokenizerError)
    try:
        lines = source.merges_path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TokenizerError(
            f"the merges {source.merges_path} next to {source.path} cannot be read ({error}): both "
            "files are needed."
        ) from None
    model = {"vocab": vocab, "merges": [line for line in lines if not line.startswith("#version")]}
    try:
        check_vocab_and_merges(model)
    except LayoutError as error:
        raise damaged(source.path, str(error)) from None
    if GPT2_END not in vocab:
        raise TokenizerError(
            f"{source.path} has no token {GPT2_END}; from vocab.json only GPT-2's vocabulary, "
            "which ends a text with it, is supported: use the model's tokenizer.json."
        )
    named = special.config.get("tokenizer_class")
    if isinstance(named, str) and named.removesuffix("Fast") != GPT2:
        raise TokenizerError(
            f"{special.directory / CONFIG}: tokenizer_class is {named!r}, but vocab.json and "
            f"merges.txt are read as by {GPT2} alone: use the model's tokenizer.json."
        )
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": bool(special.config.get("add_prefix_space")),
        "trim_offsets": True,
        "use_regex": True,
    }
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    end = {"id": vocab[GPT2_END], "content": GPT2_END, **flags, "special": True}
    return {
        "version": "1.0",
        "model": {"type": "BPE", **model},
        "added_tokens": [] if special.config else [end],  # GPT2Tokenizer names it as well
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
    }
