"""Parakeet's checkpoints as sources of an export."""

from pathlib import Path

import torch

from exporter.errors import ExportError
from exporter.hearing.calibration import calibration_features
from exporter.hearing.log_mel import LEAST_FRAMES, LOG_MEL, read_parakeet, write_log_mel
from exporter.hearing.methods import ENCODER
from exporter.hearing.quantize import quantize_parakeet
from exporter.hearing.source import (
    HearingSource,
    loaded,
    model_facts,
    open_model,
    without_weights,
)
from exporter.hearing.transcription import TRANSCRIPTION, Transcription, write_transcription
from exporter.listener import Listener
from exporter.models.parakeet import FAMILY, Parakeet
from exporter.module.shorter import Shorter
from exporter.module.source import Inputs, Made
from quant.scheme import Scheme


def open_parakeet(directory: Path, recordings: Path | None = None) -> HearingSource[Parakeet]:
    """
    Args:
        recordings: a directory of sound to calibrate on; None: the export makes it.

    Raises:
        ExportError: a file is missing or damaged, or the model is not supported.
    """
    checkpoint = open_model(directory, FAMILY)
    config = checkpoint.config
    sound = read_parakeet(directory, config.subsampling_factor)
    if sound.n_mels != config.num_mel_bins:
        raise ExportError(
            f"The feature extractor of {directory} makes {sound.n_mels} features, but the model "
            f"reads {config.num_mel_bins}; take both from one model."
        )
    most = config.states_of(sound.frames)

    def make() -> Parakeet:
        return Parakeet(config, most)

    empty = without_weights(make)
    checkpoint.check(empty)

    def quantized(model: Parakeet, scheme: Scheme, listener: Listener) -> None:
        features = calibration_features(sound, recordings) if scheme.needs_calibration else None
        quantize_parakeet(model, scheme, features, listener.progress)

    def methods(model: Parakeet) -> dict[str, Made]:
        generator = torch.Generator().manual_seed(0)
        features = torch.randn(1, sound.frames, sound.n_mels, generator=generator)
        shorter = Shorter("frames", ("features",), LEAST_FRAMES)
        made = Made(model, Inputs((features,)), None, (), refuses_nan=False, shorter=shorter)
        return {ENCODER: made}

    settings = Transcription(blank=config.blank)
    return HearingSource(
        FAMILY.model_type,
        config.vocab_size,
        {LOG_MEL: write_log_mel(sound), TRANSCRIPTION: write_transcription(settings)},
        model_facts(checkpoint, empty, config.hidden_size, most, settings),
        lambda: loaded(checkpoint, make),
        quantized,
        methods,
    )
