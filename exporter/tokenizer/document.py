"""A `tokenizer.json` with the tokens that the files beside it add; GPT-2's pair of files as one."""

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken

from exporter.json_object import read_object
from exporter.tokenizer.class_steps import changed_parts, class_steps
from exporter.tokenizer.errors import TokenizerError
from exporter.tokenizer.layout import LayoutError, check_document, check_vocab_and_merges
from exporter.tokenizer.library import load_library_tokenizer
from exporter.tokenizer.mistral_split import split_as_mistral
from exporter.tokenizer.sentencepiece_document import sentencepiece_document
from exporter.tokenizer.source import TokenizerKind, TokenizerSource
from exporter.tokenizer.special_tokens import CONFIG, SpecialTokens, content_of
from exporter.tokenizer.tokenizer_class import (
    COHERE,
    GPT2,
    NEOX,
    QWEN2,
    QWEN35,
    UNKNOWN_STEPS,
    is_certain,
)

GPT2_END = "<|endoftext|>"
_EVEN_OF_BPE = "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"
_OF_VOCAB_AND_MERGES = (GPT2, QWEN2, QWEN35, NEOX, COHERE)

Json = dict[str, Any]


def tokenizer_document(
    source: TokenizerSource, special: SpecialTokens, read: Json | None = None
) -> tuple[Json, list[str]] | None:
    """The `tokenizer.json` that stands for the files, and notes on what has no effect in them.

    Args:
        read: what a `tokenizer.json` holds, if it was read already.

    Returns:
        None where the file's own library reads it: tiktoken ranks, and a SentencePiece model for
        which no class is named.

    Raises:
        TokenizerError: a file is missing or damaged, or the files contradict each other.
    """
    notes: list[str] = []
    if source.kind is TokenizerKind.TOKENIZER_JSON:
        document = read_object(source.path, TokenizerError) if read is None else read
    elif source.kind is TokenizerKind.VOCAB_AND_MERGES:
        document = _vocab_and_merges(source, special)
    elif source.kind is TokenizerKind.SENTENCEPIECE:
        converted = sentencepiece_document(source.path, special)
        if converted is None:
            return None
        document, notes = converted
    else:
        return None
    try:
        check_document(document)
        if source.kind is TokenizerKind.TOKENIZER_JSON:
            document, notes = _as_the_class_reads(document, special)
        document, more = split_as_mistral(document, special)
        document, also = _without_chance(document)
        notes = [*notes, *more, *also, *_not_as_transformers(document, special)]
        present = [AddedToken(**_flags(token)) for token in document.get("added_tokens") or ()]
        new = special.to_add(present)
        if not new:
            return document, notes
        library = load_library_tokenizer(document)
    except LayoutError as error:
        raise damaged(source.path, str(error)) from None
    library.add_tokens(new)
    special.check_ids(
        {token.content: id for id, token in library.get_added_tokens_decoder().items()}
    )
    return {**document, "added_tokens": json.loads(library.to_str())["added_tokens"]}, notes


def _as_the_class_reads(document: Json, special: SpecialTokens) -> tuple[Json, list[str]]:
    """A `tokenizer.json` with the steps that the class in the files puts there, and what changed.

    Raises:
        TokenizerError: the class cannot read its model.
    """
    field = f"{special.directory / CONFIG}: the class {special.kind}"
    own = is_certain(special.model)
    advice = (
        f"It is that of every {special.model.get('model_type')}, whatever {CONFIG} names."
        if own
        else f'To keep them, set the tokenizer_class of {CONFIG} to "PreTrainedTokenizerFast".'
    )
    if special.kind in UNKNOWN_STEPS:
        return document, [
            f"{field} has steps of its own in transformers 5; those of tokenizer.json are used."
        ]
    steps = class_steps(special.kind, special.config)
    if steps is None:
        return document, []
    kind = document["model"].get("type", "BPE")
    if kind != "BPE" or "merges" not in document["model"]:
        raise TokenizerError(
            f"{field} reads BPE, but tokenizer.json has {kind}: "
            + (
                f"{advice[:-1]}, so name a tokenizer of BPE."
                if own
                else 'set tokenizer_class to "PreTrainedTokenizerFast" to read it as it is.'
            )
        )
    changed = changed_parts(document, steps)
    added = document.get("added_tokens") or []
    if special.lists_all:
        kept = {token.content for token in special.listed.values()}
        kept |= {content_of(token) for token in (*special.named.values(), *special.extra)}
        changed += [
            f"added_tokens ({token['content']})" for token in added if token["content"] not in kept
        ]
        added = []
    notes = [
        f"As in transformers 5, the class {special.kind} replaces these parts of tokenizer.json: "
        f"{', '.join(changed)}. {advice}"
    ]
    model = {**document["model"], **steps["model"]}
    return {**document, **steps, "model": model, "added_tokens": added}, notes if changed else []


def _without_chance(document: Json) -> tuple[Json, list[str]]:
    """A `tokenizer.json` that makes the same tokens of a text every time, and what changed."""
    dropout = document["model"].get("dropout")
    if not dropout:
        return document, []
    return {**document, "model": {**document["model"], "dropout": None}}, [
        f"tokenizer.json has a dropout of {dropout!r}, by which transformers leaves out merges at "
        "random, as in training; a file leaves out none."
    ]


def _not_as_transformers(document: Json, special: SpecialTokens) -> list[str]:
    """Notes on what `transformers` would do to every text, and a file does not."""
    path, config = special.directory / CONFIG, special.config
    notes = []
    joins = config.get("clean_up_tokenization_spaces")
    if joins is True and (config.get(_EVEN_OF_BPE) or document["model"].get("type") != "BPE"):
        notes.append(
            f"{path} has clean_up_tokenization_spaces, by which transformers drops spaces before "
            "punctuation from what a model writes; a file keeps them."
        )
    return notes


def damaged(path: Path, why: str) -> TokenizerError:
    return TokenizerError(f"{path} is not a valid {path.name} ({why}): download the file again.")


def _flags(token: Json) -> Json:
    names = ("content", "special", "normalized", "lstrip", "rstrip", "single_word")
    return {name: token[name] for name in names if token.get(name) is not None}


def _vocab_and_merges(source: TokenizerSource, special: SpecialTokens) -> Json:
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
    kind = special.kind if special.kind in _OF_VOCAB_AND_MERGES else GPT2
    if kind == GPT2 and GPT2_END not in vocab:
        raise TokenizerError(
            f"{source.path} has no token {GPT2_END}; from vocab.json only GPT-2's vocabulary, "
            "which ends a text with it, is supported: use the model's tokenizer.json."
        )
    named = special.config.get("tokenizer_class")
    if isinstance(named, str) and named.removesuffix("Fast") != kind:
        raise TokenizerError(
            f"{special.directory / CONFIG}: tokenizer_class is {named!r}, but vocab.json and "
            f"merges.txt are read as by {GPT2} or {QWEN2} alone: use the model's tokenizer.json."
        )
    steps = class_steps(kind, special.config)
    assert steps is not None  # both have their own
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    end = {"id": vocab.get(GPT2_END), "content": GPT2_END, **flags, "special": True}
    return {
        "version": "1.0",
        **steps,
        "model": {"type": "BPE", **steps["model"], **model},
        "added_tokens": [] if special.config else [end],  # the class names it as well
    }
