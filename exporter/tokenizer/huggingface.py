"""Reads what a `tokenizer.json` holds into a spec."""

from pathlib import Path
from typing import Any

import tokenizers

from exporter.tokenizer.decoder_steps import compile_decoder
from exporter.tokenizer.document import damaged
from exporter.tokenizer.errors import TokenizerError
from exporter.tokenizer.huggingface_models import read_model, vocabulary_of
from exporter.tokenizer.layout import LayoutError
from exporter.tokenizer.library import as_tokenizer_error, load_library_tokenizer, settings_of
from exporter.tokenizer.normalizer_steps import normalizer_steps
from exporter.tokenizer.specification import AddedToken, TokenizerSpec
from exporter.tokenizer.split_steps import pre_tokenizer_steps

Json = dict[str, Any]


def read_document(document: Json, path: Path) -> TokenizerSpec:
    """Reads what a `tokenizer.json` holds into a spec; `path` is where it comes from.

    Raises:
        TokenizerError: it is damaged, or uses what is not supported.
    """
    try:
        return _read_document(document)
    except LayoutError as error:
        raise damaged(path, str(error)) from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise damaged(path, f"{type(error).__name__}: {error}") from None


def _read_document(document: Json) -> TokenizerSpec:
    library = load_library_tokenizer(document)
    model = dict(document["model"])
    model.setdefault("type", _guess_kind(model))
    if model["type"] == "Unigram":
        # The library reads some numbers one bit off; its ids follow the scores that it holds.
        model["vocab"] = (settings_of(library.model) or model)["vocab"]
    added = _added_tokens(library)
    normalizers = normalizer_steps(_steps(library.normalizer, "normalizers"))
    pre_tokenizers = pre_tokenizer_steps(_steps(library.pre_tokenizer, "pretokenizers"))
    read = read_model(model, normalizers, pre_tokenizers)
    contents = _contents(library, vocabulary_of(model), added)
    decoders = None if library.decoder is None else _steps(library.decoder, "decoders")
    special = {token.content for token in added if token.special}
    skipped = {number for number, token in enumerate(contents) if token in special}
    spec = TokenizerSpec(
        decoder=compile_decoder(contents, skipped, decoders),
        model=read,
        normalizers=normalizers,
        pre_tokenizers=pre_tokenizers,
        added_tokens=added,
    )
    processors = _steps(library.post_processor, "processors")
    spec.ends_texts = any(map(_puts_behind, processors))
    bos_id = _first_of_template(processors)
    if bos_id is not None:
        if bos_id >= len(contents):
            raise LayoutError(
                f"the post_processor begins a text with {bos_id}, which is not a token"
            )
        spec.bos_id, spec.adds_bos = bos_id, True
    return spec


def _contents(
    library: tokenizers.Tokenizer, vocab: dict[str, int], added: list[AddedToken]
) -> list[str | None]:
    """Each id's token, as the library decodes it; None where it has none."""
    ids = [*vocab.values(), *(token.id for token in added)]
    contents: list[str | None] = [None] * (max(ids) + 1)
    for token, number in vocab.items():
        contents[number] = token
    for one in added:
        contents[one.id] = library.id_to_token(one.id)
    return contents


def _guess_kind(model: Json) -> str:
    """The kind of a model in an old file, which does not name it."""
    if isinstance(model.get("vocab"), list):
        return "Unigram"
    if "merges" in model:
        return "BPE"
    return "WordPiece" if "continuing_subword_prefix" in model else "WordLevel"


def _added_tokens(library: tokenizers.Tokenizer) -> list[AddedToken]:
    """The added tokens as the library searches them: with ids that it assigns itself and, for those
    that it searches in normalized text, with normalized content."""
    added: dict[tuple[bool, str], AddedToken] = {}
    listed = sorted(
        library.get_added_tokens_decoder().items(), key=lambda item: (not item[1].special, item[0])
    )
    for number, token in listed:
        found_as = token.content
        if token.normalized and library.normalizer is not None:
            try:
                found_as = library.normalizer.normalize_str(found_as)
            except BaseException as error:  # the library panics on some settings
                raise as_tokenizer_error(error, f"cannot normalize {found_as!r}") from None
        if not found_as:
            raise TokenizerError(
                f"the added token {token.content!r} is empty once it is normalized, which is not "
                "supported: take it out of the tokenizer.json."
            )
        added.setdefault(
            (token.normalized, found_as),
            AddedToken(
                content=token.content,
                id=number,
                special=token.special,
                normalized=token.normalized,
                lstrip=token.lstrip,
                rstrip=token.rstrip,
                single_word=token.single_word,
                found_as=found_as,
            ),
        )
    return list(added.values())


def _first_of_template(processors: list[Json]) -> int | None:
    """The token that the reference puts before a text, if it puts one."""
    for step in processors:
        if step["type"] in ("BertProcessing", "RobertaProcessing"):
            return int(step["cls"][1])
        if step["type"] == "TemplateProcessing" and "SpecialToken" in step["single"][0]:
            name = step["single"][0]["SpecialToken"]["id"]
            ids = step["special_tokens"][name]["ids"]
            if len(ids) > 1 or any("SpecialToken" in part for part in step["single"][1:2]):
                raise TokenizerError(
                    "the tokenizer.json puts several tokens before every text, which is not "
                    "supported: one is."
                )
            return int(ids[0])
    return None


def _puts_behind(step: Json) -> bool:
    """Whether a step puts a token behind every text."""
    if step["type"] == "TemplateProcessing":
        return "SpecialToken" in step["single"][-1] and len(step["single"]) > 1
    return step["type"] in ("BertProcessing", "RobertaProcessing")


def _steps(component: Any, parts: str) -> list[Json]:
    """The settings of a component's parts, in their order."""
    settings = settings_of(component)
    return [] if settings is None else _flatten(settings, parts)


def _flatten(step: Json, parts: str) -> list[Json]:
    if step["type"] != "Sequence":
        return [step]
    return [inner for part in step[parts] for inner in _flatten(part, parts)]
