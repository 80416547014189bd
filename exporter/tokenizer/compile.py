"""Compiles a model's tokenizer into the form that the runner reads."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporter.json_object import read_object
from exporter.tokenizer.added_tokens import add_tokens, drop_beyond
from exporter.tokenizer.blob import write_blob
from exporter.tokenizer.document import GPT2_END, tokenizer_document
from exporter.tokenizer.errors import TokenizerError
from exporter.tokenizer.gguf import read_gguf
from exporter.tokenizer.huggingface import read_document
from exporter.tokenizer.sentencepiece_document import named_pieces
from exporter.tokenizer.sentencepiece_model import (
    parsed,
    pieces_of,
    read_sentencepiece,
    text_ends,
)
from exporter.tokenizer.source import TokenizerKind, TokenizerSource, find_tokenizer
from exporter.tokenizer.special_ids import apply_configs
from exporter.tokenizer.special_tokens import (
    CONFIG,
    SpecialTokens,
    padding_token,
    read_special_tokens,
)
from exporter.tokenizer.specification import TokenizerSpec
from exporter.tokenizer.tiktoken_ranks import read_tiktoken
from exporter.tokenizer.tokenizer_class import QWEN2


@dataclass(frozen=True)
class CompiledTokenizer:
    """A tokenizer in the runner's form, and the facts that the program's methods return.

    Attributes:
        data: the flatbuffer of schemas/tokenizer.fbs.
        bos_id: the token that begins a text; None if the model has none.
        eos_ids: the tokens that end one.
        vocab_size: one more than the largest token id.
        tokens: the texts of the tokens that have a name, as chat templates write it: `bos_token`
            and others.
        ends_texts: whether the model's own tokenizer puts a token behind every text.
        notes: what was left out, and where the files contradict each other.
    """

    data: bytes
    bos_id: int | None
    eos_ids: list[int]
    vocab_size: int
    tokens: dict[str, str]
    ends_texts: bool = False
    notes: tuple[str, ...] = ()

    @property
    def bos_token(self) -> str:
        return self.tokens.get("bos_token", "")

    @property
    def eos_token(self) -> str:
        return self.tokens.get("eos_token", "")


def compile_tokenizer(
    path: Path,
    model_directory: Path | None = None,
    rows: int | None = None,
    with_template: bool = True,
) -> CompiledTokenizer:
    """Compiles the tokenizer in a directory, or in a file of any supported kind.

    The files next to it (`config.json`, `generation_config.json`, `tokenizer_config.json`,
    `special_tokens_map.json`, `added_tokens.json`) define which tokens begin and end a text, and
    may add tokens.

    Args:
        model_directory: the directory of the model's own first two configs, if it is another one.
        rows: how many tokens the model has an embedding for; added tokens beyond them are dropped.
        with_template: whether tokens that it puts around texts matter; if not, they may be any.

    Raises:
        TokenizerError: there is no tokenizer, or it is damaged or not supported.
    """
    spec = read_specification(path, model_directory, with_template)
    dropped = [] if rows is None else drop_beyond(spec, rows)
    if dropped:
        spec.notes.append(
            f"The tokenizer's {', '.join(map(repr, dropped))} "
            f"{'is' if len(dropped) == 1 else 'are'} left out: the embedding has only {rows} rows."
        )
    return CompiledTokenizer(
        data=write_blob(spec),
        bos_id=spec.bos_id,
        eos_ids=spec.eos_ids,
        vocab_size=len(spec.decoder.texts),
        tokens=spec.named,
        ends_texts=spec.ends_texts,
        notes=tuple(spec.notes),
    )


def read_specification(
    path: Path, model_directory: Path | None = None, with_template: bool = True
) -> TokenizerSpec:
    """Returns a tokenizer of any supported kind; see `compile_tokenizer`."""
    source = find_tokenizer(path)
    if source.kind is TokenizerKind.GGUF:
        spec = read_gguf(source.path)
        spec.named = {"bos_token": "", "eos_token": "", **_by_ids(spec)}
        return spec
    model_directory = model_directory or source.directory
    special = read_special_tokens(source.directory, model_directory)
    if source.kind is TokenizerKind.SENTENCEPIECE and special.names_class and not special.kind:
        special = special.with_defaults(named_pieces(source.path))
    document = None
    if source.kind is TokenizerKind.TOKENIZER_JSON:
        document = read_object(source.path, TokenizerError)
        special = special.with_defaults(padding_token(document))
    spec = _read(source, special, document, with_template)
    apply_configs(spec, special, model_directory, source.kind)
    if special.config.get("split_special_tokens") is True:
        spec.notes.append(
            f"{special.directory / CONFIG} has split_special_tokens, by which transformers takes "
            "special tokens for plain text, also those of a chat template; a file keeps the latter."
        )
    spec.named = {name: special.text(name) or "" for name in special.named}
    if not special.config and source.kind is TokenizerKind.TIKTOKEN:
        spec.named = {**_by_ids(spec), **spec.named}
    elif source.kind is TokenizerKind.SENTENCEPIECE and not special.kind:
        by_ids = _by_ids(spec) if special.config else named_pieces(source.path)
        spec.named = {**{n: by_ids[n] for n in by_ids if n not in special.given}, **spec.named}
    return spec


def _read(
    source: TokenizerSource,
    special: SpecialTokens,
    document: dict[str, Any] | None,
    with_template: bool,
) -> TokenizerSpec:
    converted = tokenizer_document(source, special, document)
    if converted is not None:
        document, notes = converted
        if not with_template:
            document = {**document, "post_processor": None}
        spec = read_document(document, source.path)
        spec.notes += notes
        if source.kind is TokenizerKind.VOCAB_AND_MERGES and special.kind != QWEN2:
            spec.eos_ids = [one.id for one in spec.added_tokens if one.content == GPT2_END]
            spec.bos_id = next(iter(spec.eos_ids), None)
        elif source.kind is TokenizerKind.SENTENCEPIECE:
            listed = [token.content for token in special.listed.values()]
            special.check_read([*pieces_of(source.path), *listed])
            spec.bos_id, spec.eos_ids = text_ends(parsed(source.path))
            spec.adds_bos = spec.bos_id is not None
        return spec
    if source.kind is TokenizerKind.SENTENCEPIECE:
        spec, pieces = read_sentencepiece(source.path), pieces_of(source.path)
        if special.model:
            spec.notes.append(
                f"No file names a tokenizer_class, so {source.path.name} is read as SentencePiece "
                "reads it. transformers 5 gives other ids: to have them, write "
                f'"tokenizer_class": "TokenizersBackend" into {CONFIG}.'
            )
    else:
        spec = read_tiktoken(source.path)
        pieces = [token.decode("utf-8", "replace") for token in spec.tokens]
    add_tokens(spec, special, pieces)
    return spec


def _by_ids(spec: TokenizerSpec) -> dict[str, str]:
    """The texts of the first tokens that begin and end a text."""
    written = {token.id: token.content for token in spec.added_tokens}
    ids = {"bos_token": spec.bos_id, "eos_token": next(iter(spec.eos_ids), None)}
    return {name: written[id] for name, id in ids.items() if id is not None and id in written}
