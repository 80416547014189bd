"""Compiles a model's tokenizer into the form that the runner reads."""

from dataclasses import dataclass
from pathlib import Path

from exporter.tokenizer.blob import write_blob
from exporter.tokenizer.gguf import read_gguf
from exporter.tokenizer.huggingface import read_tokenizer_json, read_vocab_and_merges
from exporter.tokenizer.sentencepiece_model import read_sentencepiece
from exporter.tokenizer.source import TokenizerKind, find_tokenizer
from exporter.tokenizer.special_ids import apply_configs
from exporter.tokenizer.specification import TokenizerSpec
from exporter.tokenizer.tiktoken_ranks import read_tiktoken


@dataclass(frozen=True)
class CompiledTokenizer:
    """A tokenizer in the runner's form, and the facts that the program's methods return.

    Attributes:
        data: the flatbuffer of schemas/tokenizer.fbs.
        bos_id: the token that begins a text; None if the model has none.
        eos_ids: the tokens that end one.
        vocab_size: one more than the largest token id.
        bos_token, eos_token: the text of the first of each, as chat templates write it; empty if
            there is none.
    """

    data: bytes
    bos_id: int | None
    eos_ids: list[int]
    vocab_size: int
    bos_token: str
    eos_token: str


def compile_tokenizer(path: Path, model_directory: Path | None = None) -> CompiledTokenizer:
    """Compiles the tokenizer in a directory, or in a file of any supported kind.

    The configs next to it (`config.json`, `generation_config.json`, `tokenizer_config.json`) define
    which tokens begin and end a text.

    Args:
        model_directory: the directory of the model's own first two configs, if it is another one.

    Raises:
        TokenizerError: there is no tokenizer, or it is damaged or not supported.
    """
    spec = read_specification(path, model_directory)
    written = {token.id: token.content for token in spec.added_tokens}
    return CompiledTokenizer(
        data=write_blob(spec),
        bos_id=spec.bos_id,
        eos_ids=spec.eos_ids,
        vocab_size=len(spec.decoder.texts),
        bos_token=written.get(spec.bos_id, "") if spec.bos_id is not None else "",
        eos_token=written.get(spec.eos_ids[0], "") if spec.eos_ids else "",
    )


def read_specification(path: Path, model_directory: Path | None = None) -> TokenizerSpec:
    """Returns a tokenizer of any supported kind; see `compile_tokenizer`."""
    source = find_tokenizer(path)
    if source.kind is TokenizerKind.GGUF:
        return read_gguf(source.path)
    if source.kind is TokenizerKind.TOKENIZER_JSON:
        spec = read_tokenizer_json(source.path)
    elif source.kind is TokenizerKind.SENTENCEPIECE:
        spec = read_sentencepiece(source.path)
    elif source.kind is TokenizerKind.TIKTOKEN:
        spec = read_tiktoken(source.path)
    else:
        spec = read_vocab_and_merges(source)
    apply_configs(spec, source.directory, model_directory or source.directory)
    return spec
