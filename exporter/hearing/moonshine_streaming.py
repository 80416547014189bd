"""Checkpoints of Moonshine for sound that arrives, as sources of an export."""

from dataclasses import replace
from pathlib import Path

import torch

from exporter.checkpoint.checkpoint import Checkpoint
from exporter.errors import ExportError
from exporter.hearing.calibration import raw_calibration
from exporter.hearing.methods import ENCODER, TEXT_DECODER, TEXT_VERIFIER
from exporter.hearing.moonshine import text_decoder
from exporter.hearing.quantize import quantize
from exporter.hearing.source import (
    HearingSource,
    loaded,
    model_facts,
    open_model,
    without_weights,
)
from exporter.hearing.transcription import (
    TRANSCRIPTION,
    Transcription,
    read_ends,
    write_transcription,
)
from exporter.hearing.waveform import (
    WAVEFORM,
    StreamSettings,
    WaveformSettings,
    read_waveform,
    write_waveform,
)
from exporter.listener import Listener
from exporter.models.moonshine import StepDecoder
from exporter.models.moonshine_streaming import (
    FAMILY,
    MoonshineStreaming,
    MoonshineStreamingSpec,
    StreamEncoder,
    compress,
)
from exporter.module.shorter import Shorter
from exporter.module.source import Inputs, Made
from quant.scheme import Scheme

_MOST_TOKENS = 256  # of a text, where generation_config.json does not say
_VERIFIED = 16  # tokens of a call


def open_moonshine_streaming(
    directory: Path, recordings: Path | None = None
) -> HearingSource[MoonshineStreaming]:
    """
    Args:
        recordings: a directory of sound to calibrate on; None: the export makes it.

    Raises:
        ExportError: a file is missing or damaged, or the model is not supported.
    """
    checkpoint = open_model(directory, FAMILY)
    config = checkpoint.config
    ends, stated = read_ends(directory, config.vocab_size)
    most_tokens = min(stated or _MOST_TOKENS, config.max_position_embeddings)

    def make() -> MoonshineStreaming:
        return MoonshineStreaming(config)

    empty = without_weights(make)
    checkpoint.check(empty)
    sound = _waveform(directory, checkpoint, most_tokens)

    def quantized(model: MoonshineStreaming, scheme: Scheme, listener: Listener) -> None:
        calibration = None
        if scheme.needs_calibration:
            calibration = raw_calibration(directory, most_tokens, sound, ends, recordings)
            features = compress(calibration.features, config.frame, model.encoder.log_scale)
            calibration = replace(calibration, features=features)
        quantize(model, scheme, calibration, listener.progress)

    return HearingSource(
        FAMILY.model_type,
        config.vocab_size,
        {WAVEFORM: write_waveform(sound), TRANSCRIPTION: write_transcription(ends)},
        model_facts(checkpoint, empty, config.hidden_size, most_tokens, ends, streams=True),
        lambda: loaded(checkpoint, make),
        quantized,
        lambda model: _methods(model, config, sound, ends, most_tokens),
    )


def _waveform(
    directory: Path, checkpoint: Checkpoint[MoonshineStreamingSpec], most_tokens: int
) -> WaveformSettings:
    config, fields = checkpoint.config, read_waveform(directory)
    if fields.sampling_rate != config.sample_rate:
        raise ExportError(
            f"The feature extractor of {directory} has {fields.sampling_rate} samples per second, "
            f"but the model reads {config.sample_rate}; take both from one model."
        )
    rows = min(fields.seconds * fields.sampling_rate // config.row, config.max_position_embeddings)
    least = config.rows_before + config.rows_behind + 1  # of which one state is new
    if rows < 2 * least:
        raise ExportError(
            f"The model reads at most {rows} rows of {config.row} samples at once, but needs "
            f"{2 * least}: raise chunk_length of preprocessor_config.json."
        )
    verified = _verified(most_tokens)
    sizes = most_tokens, most_tokens + 1, verified, most_tokens + verified
    while rows in sizes:  # which the decoder has, too
        rows -= 1
    positions = checkpoint.tensor("encoder.pos_emb.weight")[:rows].float()
    scale = float(checkpoint.tensor("encoder.log_scale").float().exp())
    before, behind = config.rows_before, config.rows_behind
    stream = StreamSettings(config.frame, scale, before, behind, positions)
    return WaveformSettings(fields.sampling_rate, config.row, 1, rows, stream)


def _methods(
    model: MoonshineStreaming,
    spec: MoonshineStreamingSpec,
    sound: WaveformSettings,
    ends: Transcription,
    most: int,
) -> dict[str, Made]:
    """Returns the file's methods, with examples of their inputs."""
    generator = torch.Generator().manual_seed(0)
    rows = 0.1 * torch.randn(1, sound.most, sound.row, generator=generator)
    assert sound.stream is not None
    decoder = StepDecoder(model.decoder, spec, most, model.proj_out)
    frames = compress(rows, spec.frame, model.encoder.log_scale)
    return {
        ENCODER: Made(
            StreamEncoder(model).eval(),
            Inputs((frames, sound.stream.positions[None])),
            None,
            (),
            refuses_nan=False,
            shorter=Shorter("rows", ("sound", "positions"), sound.least),
        ),
        TEXT_DECODER: text_decoder(decoder, spec, ends, most, sound.most),
        TEXT_VERIFIER: text_decoder(decoder, spec, ends, most, sound.most, _verified(most)),
    }


def _verified(most_tokens: int) -> int:
    """How many tokens of the text before are read at once, to see which of them stay."""
    return min(_VERIFIED, most_tokens)
