"""From a checkpoint to a `.pte` of speech to text: the complete export, in order."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from exporter.catalogue.hearing import CTRANSLATE2, is_ctranslate2
from exporter.catalogue.weight_files import CONFIG
from exporter.checkpoint.checkpoint import Checkpoint
from exporter.checkpoint.hugging_face import open_all, read_spec
from exporter.errors import ExportError
from exporter.file.pte import TOKENIZER
from exporter.hearing.calibration import read_calibration
from exporter.hearing.ctranslate2 import WhisperTensors, log_mel_of, transcription_of
from exporter.hearing.log_mel import LOG_MEL, LogMelSettings, read_log_mel, write_log_mel
from exporter.hearing.methods import ENCODER, SPEECH_DETECTOR, TEXT_DECODER
from exporter.hearing.moonshine import open_moonshine
from exporter.hearing.moonshine_streaming import open_moonshine_streaming
from exporter.hearing.openai import as_directory, open_one_file
from exporter.hearing.parakeet import open_parakeet
from exporter.hearing.quantize import quantize
from exporter.hearing.scheme import hearing_scheme
from exporter.hearing.source import HearingSource, loaded, model_facts, without_weights
from exporter.hearing.speech import speech_detector
from exporter.hearing.transcription import (
    TRANSCRIPTION,
    Transcription,
    read_transcription,
    write_transcription,
)
from exporter.json_object import read_object
from exporter.listener import SILENT, Listener
from exporter.models.moonshine import FAMILY as MOONSHINE_FAMILY
from exporter.models.moonshine_streaming import FAMILY as STREAMING_FAMILY
from exporter.models.parakeet import FAMILY as PARAKEET_FAMILY
from exporter.models.whisper import (
    FAMILY,
    JoinedEncoder,
    StatefulDecoder,
    TextDecoder,
    Whisper,
    WhisperSpec,
    WindowEncoder,
)
from exporter.module.options import ModuleOptions
from exporter.module.pipeline import ModuleResult, export_made
from exporter.module.source import Inputs, Made
from exporter.module.source_name import SourceName
from exporter.module.window_scheme import DEFAULT_SCHEME, describe_scheme
from exporter.tokenizer.compile import compile_tokenizer
from quant.scheme import Scheme
from quant.weight_type import INT8

_DELEGATE = "cpu"
_OPENERS: Mapping[str, Callable[[Path, Path | None], HearingSource[Any]]] = {
    MOONSHINE_FAMILY.model_type: open_moonshine,
    STREAMING_FAMILY.model_type: open_moonshine_streaming,
    PARAKEET_FAMILY.model_type: open_parakeet,
}


@dataclass(frozen=True)
class HearingOptions:
    """One export.

    Attributes:
        directory: the checkpoint, with the files of the tokenizer and the feature extractor; or a
            file, OpenAI's .pt or whisper.cpp's GGML.
        out: the `.pte` to write.
        scheme: how weights are stored.
        delegate: a name in delegates.DELEGATES.
        etrecord: file for the graphs that the profiler reads.
        calibration: a directory of recordings; None: made sound.
        detector: weights of the net that tells where there is speech; None: the file has none.
    """

    directory: Path
    out: Path
    scheme: Scheme = DEFAULT_SCHEME
    delegate: str = _DELEGATE
    etrecord: Path | None = None
    calibration: Path | None = None
    detector: Path | None = None


def export_hearing(options: HearingOptions, listener: Listener = SILENT) -> ModuleResult:
    """Writes options.out, and options.etrecord if set; on failure neither is changed.

    Raises:
        ExportError, TokenizerError, DelegateError: with the sentence to show.
    """
    with as_directory(options.directory) as directory:
        return _export(directory, options, listener)


def _export(directory: Path, options: HearingOptions, listener: Listener) -> ModuleResult:
    scheme, source = hearing_scheme(options.scheme), _opened(directory, options.calibration)
    stock = options.delegate != _DELEGATE
    if stock:
        if source.stock_methods is None:
            raise ExportError(
                f"{options.delegate} supports no {source.model_type} yet: export with --delegate "
                "cpu."
            )
        if scheme.name != "none":
            scheme = replace(scheme, method=replace(scheme.choice, rotation="none"))
    detector = {}
    if options.detector is not None:
        detector[SPEECH_DETECTOR] = speech_detector(options.detector, source)
    tokenizer = compile_tokenizer(directory, directory, source.vocab_size, with_template=False)
    for note in tokenizer.notes:
        listener.note(note)
    module_options = ModuleOptions(
        SourceName(directory / CONFIG, source.model_type),
        options.out,
        delegate=options.delegate,
        etrecord=options.etrecord,
    )

    def make() -> Mapping[str, Made]:
        listener.stage("load")
        model = source.load()
        if stock:
            # Only our delegate has them, and groups of 8 bits.
            model.INTEGER_CONVOLUTIONS, model.STEP_TYPE = (), INT8
        if scheme.name != "none":
            listener.stage("quantize")
            source.quantize(model, scheme, listener)
        methods = source.stock_methods if stock else None
        return {**(methods or source.methods)(model), **detector}

    return export_made(
        module_options,
        options.directory,
        make,
        {TOKENIZER: tokenizer.data, **source.blobs},
        listener,
        copies_inputs=False,
        facts={"model": source.facts, "quantization": describe_scheme(scheme)},
    )


def _opened(directory: Path, recordings: Path | None) -> HearingSource[Any]:
    if is_ctranslate2(directory):
        return _whisper(directory, recordings)
    model_type = str(read_object(directory / CONFIG).get("model_type"))
    return _OPENERS.get(model_type, _whisper)(directory, recordings)


def _whisper(directory: Path, recordings: Path | None) -> HearingSource[Whisper]:
    checkpoint = open_whisper(directory)
    if is_ctranslate2(directory):
        sound = log_mel_of(checkpoint.config)
        settings = transcription_of(directory, checkpoint.config)
    else:
        sound = read_log_mel(directory)
        settings = read_transcription(directory, checkpoint.config)
    _require_fitting(directory, checkpoint.config, sound)

    def quantized(model: Whisper, scheme: Scheme, listener: Listener) -> None:
        calibration = None
        if scheme.needs_calibration:
            calibration = read_calibration(
                directory, checkpoint.config, sound, settings, recordings
            )
        quantize(model, scheme, calibration, listener.progress)

    spec = checkpoint.config
    return HearingSource(
        FAMILY.model_type,
        spec.vocab_size,
        {LOG_MEL: write_log_mel(sound), TRANSCRIPTION: write_transcription(settings)},
        model_facts(checkpoint, _empty(spec), spec.d_model, spec.max_target_positions, settings),
        lambda: load(checkpoint),
        quantized,
        lambda model: methods_of(model, spec, settings),
        lambda model: stock_methods_of(model, spec, settings),
    )


def open_whisper(directory: Path) -> Checkpoint[WhisperSpec]:
    """Maps the weights of a directory, and reads their headers.

    Raises:
        ExportError: there are no weights, or the config or they are damaged or unsupported.
    """
    if is_ctranslate2(directory):
        tensors = WhisperTensors(directory / CTRANSLATE2)
        return _checked(Checkpoint(tensors.spec, directory, _name(directory), tensors, FAMILY))
    config = read_spec(directory, FAMILY)
    weights = open_one_file(directory, config)
    if weights is None:
        weights = open_all(directory)
    return _checked(Checkpoint(config, directory, _name(directory), weights, FAMILY))


def _name(directory: Path) -> str:
    return directory.resolve().name


def _checked(checkpoint: Checkpoint[WhisperSpec]) -> Checkpoint[WhisperSpec]:
    checkpoint.check(_empty(checkpoint.config))
    return checkpoint


def load(checkpoint: Checkpoint[WhisperSpec]) -> Whisper:
    """Returns the model with its weights, float32."""
    return loaded(checkpoint, lambda: Whisper(checkpoint.config))


def _empty(spec: WhisperSpec) -> Whisper:
    return without_weights(lambda: Whisper(spec))


def methods_of(model: Whisper, spec: WhisperSpec, settings: Transcription) -> dict[str, Made]:
    """Returns the file's methods, with examples of their inputs."""
    generator = torch.Generator().manual_seed(0)

    def numbers(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    def layers(rows: int) -> list[torch.Tensor]:
        return [numbers(1, rows, spec.d_model) for _ in range(spec.decoder_layers)]

    window, most = spec.max_source_positions, spec.max_target_positions
    bias = torch.full((1, 1, 1, most + 1), -torch.inf)
    bias[..., : most // 2] = 0
    features = (numbers(1, spec.num_mel_bins, 2 * window),)
    step = (
        *(torch.tensor([[settings.start]]), torch.tensor([[most // 2]]), bias),
        *(layers(most), layers(most), layers(window), layers(window)),
    )
    decoder = TextDecoder(model, settings.asking_layers)
    return _made({ENCODER: (WindowEncoder(model), features), TEXT_DECODER: (decoder, step)})


def stock_methods_of(model: Whisper, spec: WhisperSpec, settings: Transcription) -> dict[str, Made]:
    """Returns the methods that ExecuTorch's own Seq2SeqRunner calls, with examples."""
    generator = torch.Generator().manual_seed(0)
    window, joined = spec.max_source_positions, 2 * spec.decoder_layers * spec.d_model
    features = torch.randn((1, spec.num_mel_bins, 2 * window), generator=generator)
    states = torch.randn((1, window, joined), generator=generator)
    step = torch.tensor([[settings.start]]), states, torch.zeros(1, dtype=torch.int64)
    decoder = StatefulDecoder(model, spec)
    return _made({ENCODER: (JoinedEncoder(model), (features,)), TEXT_DECODER: (decoder, step)})


def _made(
    methods: Mapping[str, tuple[torch.nn.Module, tuple[Any, ...]]],
) -> dict[str, Made]:
    # The runtime refuses sound with a NaN; to look for one in caches, too, would cost each token.
    return {
        name: Made(module.eval(), Inputs(inputs), None, (), refuses_nan=False)
        for name, (module, inputs) in methods.items()
    }


def _require_fitting(directory: Path, spec: WhisperSpec, sound: LogMelSettings) -> None:
    expected = spec.num_mel_bins, 2 * spec.max_source_positions
    if (sound.n_mels, sound.frames) != expected:
        raise ExportError(
            f"The feature extractor of {directory} makes windows of {sound.n_mels} features and "
            f"{sound.frames} frames, but the model reads {expected[0]} and {expected[1]}; take "
            "both from one model."
        )
