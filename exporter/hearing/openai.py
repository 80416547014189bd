"""A Whisper in one file, OpenAI's `.pt` or whisper.cpp's GGML, as a directory like Hugging Face's:
its weights by those names, and files of JSON made of what the file says.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from exporter.catalogue.hearing import GGML, OPENAI, is_ggml_file
from exporter.catalogue.weight_files import CONFIG
from exporter.checkpoint.ggml_file import SIZES, GgmlFile
from exporter.checkpoint.hugging_face import NamedTensors
from exporter.checkpoint.pickled_file import PickledFile
from exporter.errors import ExportError
from exporter.hearing.ctranslate2 import log_mel_of
from exporter.hearing.log_mel import mel_filters
from exporter.hearing.ranked_tokenizer import (
    END,
    NO_TIMESTAMPS,
    START,
    TRANSCRIBE,
    TRANSLATE,
    named_tokens,
    tokenizer_json,
)
from exporter.json_object import read_object
from exporter.models.whisper import WhisperSpec, spec
from exporter.tokenizer import load_tokenizer
from exporter.tokenizer.tiktoken_ranks import read_ranks

_TOKENIZER = "tokenizer.json"
_WEIGHTS = "model_state_dict"  # of a .pt
_STEPS = 50  # of a window, a second
_ENGLISH = 51865  # tokens of models of several languages, at least
_CLOSE = 1e-5  # of a filter's numbers
# Of sounds that are no speech, and of what surrounds them: tokens that are never written.
_SIGNS = '"#()*+/:;<=>@[\\]^_`{|}~「」『』'
_PAIRS = "<< >> <<< >>> -- --- -( -[ (' (\" (( )) ((( ))) [[ ]] {{ }} ♪♪ ♪♪♪"
_NOTES = "♩♪♫♬♭♮♯"
_ATTENTION = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "out": "out_proj"}


@contextmanager
def as_directory(path: Path) -> Iterator[Path]:
    """Yields the directory that stands for a file; a directory as it is.

    Raises:
        ExportError, TokenizerError: the file is damaged, or the tokenizer beside it is missing.
    """
    if path.is_dir():
        yield path
        return
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary) / path.stem
        directory.mkdir()
        link = GGML if is_ggml_file(path) else OPENAI
        (directory / link).symlink_to(path.resolve())
        for name, fields in _files(path).items():
            (directory / name).write_text(json.dumps(fields))
        _write_generation(directory)
        yield directory


def open_one_file(directory: Path, config: WhisperSpec) -> NamedTensors | None:
    """The weights of a directory that stands for a file; None: it is another one."""
    if (directory / OPENAI).is_file():
        file: PickledFile | GgmlFile = PickledFile(directory / OPENAI, _WEIGHTS)
    elif (directory / GGML).is_file():
        file = GgmlFile(directory / GGML)
    else:
        return None
    shapes, names = file.shapes(), _names(config)
    absent = [theirs for theirs in names.values() if theirs not in shapes]
    if absent:
        raise ExportError(f"{file.path} lacks the tensor {absent[0]}; download it again.")
    return NamedTensors([file], names)


def _files(path: Path) -> dict[str, dict[str, Any]]:
    """What the directory's files hold, but that of texts."""
    tokenizer: dict[str, Any] | None = None
    if is_ggml_file(path):
        ggml = GgmlFile(path)
        config = _config(path, ggml.sizes, ggml.shapes())
        read = spec(config)
        ranked = ggml.tokens
        if not np.allclose(ggml.filters, mel_filters(log_mel_of(read)), atol=_CLOSE):
            raise ExportError(f"{path} has other mel filters than Whisper's; download it again.")
    else:
        pickled = PickledFile(path, _WEIGHTS)
        dims = pickled.beside.get("dims")
        config = _config(path, dims if isinstance(dims, dict) else {}, pickled.shapes())
        read = spec(config)
        tokenizer, ranked = _beside(path)
    if tokenizer is None:
        times = read.max_source_positions + 1
        named = named_tokens(len(ranked), read.vocab_size, times)
        tokenizer = tokenizer_json(ranked, named)
    extractor = {
        "feature_size": read.num_mel_bins,
        "chunk_length": read.max_source_positions // _STEPS,
    }
    return {CONFIG: config, _TOKENIZER: tokenizer, "preprocessor_config.json": extractor}


def _config(
    path: Path, sizes: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, Any]:
    try:
        known = {name: int(sizes[name]) for name in SIZES}
        widths = [shapes[f"{part}.blocks.0.mlp.0.bias"][0] for part in ("encoder", "decoder")]
    except (KeyError, TypeError, ValueError) as error:
        raise ExportError(
            f"{path} is not a Whisper: it lacks {error}; download it again."
        ) from None
    if known["n_audio_state"] != known["n_text_state"]:
        raise ExportError(f"{path} has an encoder and a decoder of different widths.")
    return {
        "model_type": "whisper",
        "vocab_size": known["n_vocab"],
        "d_model": known["n_text_state"],
        "encoder_layers": known["n_audio_layer"],
        "decoder_layers": known["n_text_layer"],
        "encoder_attention_heads": known["n_audio_head"],
        "decoder_attention_heads": known["n_text_head"],
        "encoder_ffn_dim": widths[0],
        "decoder_ffn_dim": widths[1],
        "num_mel_bins": known["n_mels"],
        "max_source_positions": known["n_audio_ctx"],
        "max_target_positions": known["n_text_ctx"],
    }


def _beside(path: Path) -> tuple[dict[str, Any] | None, list[bytes]]:
    """The tokenizer beside a .pt: a tokenizer.json, or OpenAI's own file of ranks."""
    if (path.parent / _TOKENIZER).is_file():
        return read_object(path.parent / _TOKENIZER), []
    files = sorted(path.parent.glob("*.tiktoken"))
    if len(files) != 1:
        raise ExportError(
            f"{path.parent} has no {_TOKENIZER} and {len(files) or 'no'} .tiktoken file"
            f"{'s' if len(files) > 1 else ''}, but {path.name} needs one of them: put the model's "
            "own tokenizer beside it."
        )
    ranks = read_ranks(files[0])
    return None, sorted(ranks, key=ranks.__getitem__)


def _write_generation(directory: Path) -> None:
    """Writes which tokens begin and end texts, and which are never written, as openai-whisper has
    them."""
    read = spec(read_object(directory / CONFIG))
    tokens = {
        str(one.get("content")): one.get("id")
        for one in read_object(directory / _TOKENIZER).get("added_tokens") or []
    }
    needed = END, START, TRANSLATE, TRANSCRIBE, NO_TIMESTAMPS
    absent = [text for text in needed if type(tokens.get(text)) is not int]
    if absent:
        raise ExportError(
            f"The tokenizer of {directory.name} has no token {absent[0]}; take it from the same "
            "model."
        )
    encode = load_tokenizer(directory).encode
    heads, layers = read.decoder_attention_heads, read.decoder_layers
    fields: dict[str, Any] = {
        "decoder_start_token_id": tokens[START],
        "eos_token_id": tokens[END],
        "no_timestamps_token_id": tokens[NO_TIMESTAMPS],
        "begin_suppress_tokens": [encode(" ")[0], tokens[END]],
        "alignment_heads": [[a, b] for a in range(layers // 2, layers) for b in range(heads)],
    }
    suppressed = {encode(" -")[0], encode(" '")[0]}
    for sign in (*_SIGNS, *_PAIRS.split(), *_NOTES):
        for found in (encode(sign), encode(f" {sign}")):
            if len(found) == 1 or sign in _NOTES:
                suppressed.add(found[0])
    # Tasks and what else stands before times, of which one has two names.
    suppressed |= {tokens[START], *range(tokens[TRANSLATE], tokens[NO_TIMESTAMPS])}
    fields["suppress_tokens"] = sorted(suppressed)
    if read.vocab_size >= _ENGLISH:
        first, last = tokens[START], tokens[TRANSLATE]
        fields["lang_to_id"] = {t: id for t, id in tokens.items() if first < id < last}
        fields["task_to_id"] = {text[2:-2]: tokens[text] for text in (TRANSLATE, TRANSCRIBE)}
    (directory / "generation_config.json").write_text(json.dumps(fields))


def _names(config: WhisperSpec) -> dict[str, str]:
    """OpenAI's name of each tensor, by Hugging Face's."""
    names = {"model.decoder.embed_tokens.weight": "decoder.token_embedding.weight"}
    modules = {"model.encoder.conv1": "encoder.conv1", "model.encoder.conv2": "encoder.conv2"}
    layers = {"encoder": config.encoder_layers, "decoder": config.decoder_layers}
    for part, count in layers.items():
        names[f"model.{part}.embed_positions.weight"] = f"{part}.positional_embedding"
        last = "ln_post" if part == "encoder" else "ln"
        modules[f"model.{part}.layer_norm"] = f"{part}.{last}"
        for index in range(count):
            ours, theirs = f"model.{part}.layers.{index}", f"{part}.blocks.{index}"
            attentions = {"self_attn": "attn"}
            if part == "decoder":
                attentions["encoder_attn"] = "cross_attn"
            for own, other in attentions.items():
                modules[f"{ours}.{own}_layer_norm"] = f"{theirs}.{other}_ln"
                for theirs_part, ours_part in _ATTENTION.items():
                    modules[f"{ours}.{own}.{ours_part}"] = f"{theirs}.{other}.{theirs_part}"
            modules[f"{ours}.fc1"] = f"{theirs}.mlp.0"
            modules[f"{ours}.fc2"] = f"{theirs}.mlp.2"
            modules[f"{ours}.final_layer_norm"] = f"{theirs}.mlp_ln"
    for ours, theirs in modules.items():
        names[f"{ours}.weight"] = f"{theirs}.weight"
        if not ours.endswith("k_proj"):
            names[f"{ours}.bias"] = f"{theirs}.bias"
    return names
