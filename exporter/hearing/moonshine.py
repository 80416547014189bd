"""Moonshine's checkpoints as sources of an export."""

from pathlib import Path

import torch

from exporter.hearing.calibration import raw_calibration
from exporter.hearing.methods import ENCODER, TEXT_DECODER
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
    WaveformSettings,
    read_waveform,
    write_waveform,
)
from exporter.listener import Listener
from exporter.models.cross_attention import later_tokens
from exporter.models.moonshine import (
    FAMILY,
    ROW,
    Moonshine,
    MoonshineSpec,
    SoundEncoder,
    StepDecoder,
    TextSpec,
    rows_of,
    states_of,
)
from exporter.module.shorter import Shorter
from exporter.module.source import Inputs, Made
from quant.scheme import Scheme


def open_moonshine(directory: Path, recordings: Path | None = None) -> HearingSource[Moonshine]:
    """
    Args:
        recordings: a directory of sound to calibrate on; None: the export makes it.

    Raises:
        ExportError: a file is missing or damaged, or the model is not supported.
    """
    checkpoint = open_model(directory, FAMILY)
    config = checkpoint.config
    ends, most_tokens = read_ends(directory, config.vocab_size)
    most_tokens = min(most_tokens or config.max_position_embeddings, config.max_position_embeddings)
    sound = _waveform(directory, most_tokens)
    most = states_of(sound.most)

    def make() -> Moonshine:
        return Moonshine(config, most)

    empty = without_weights(make)
    checkpoint.check(empty)

    def quantized(model: Moonshine, scheme: Scheme, listener: Listener) -> None:
        calibration = None
        if scheme.needs_calibration:
            calibration = raw_calibration(directory, most_tokens, sound, ends, recordings)
        quantize(model, scheme, calibration, listener.progress)

    return HearingSource(
        FAMILY.model_type,
        config.vocab_size,
        {WAVEFORM: write_waveform(sound), TRANSCRIPTION: write_transcription(ends)},
        model_facts(checkpoint, empty, config.hidden_size, most_tokens, ends),
        lambda: loaded(checkpoint, make),
        quantized,
        lambda model: _methods(model, config, sound, ends, most_tokens),
    )


def _waveform(directory: Path, most_tokens: int) -> WaveformSettings:
    """The longest sound is the shortest that makes so many states, or one more: the lowest rows of
    what is computed of it are those of a shorter one only where no convolution leaves a rest."""
    fields = read_waveform(directory)
    rows = fields.seconds * fields.sampling_rate // ROW
    states = max(states_of(rows), 1)
    while states in (1, most_tokens, most_tokens + 1):  # sizes that the decoder has, too
        states += 1
    return WaveformSettings(fields.sampling_rate, ROW, rows_of(1), rows_of(states))


def _methods(
    model: Moonshine,
    spec: MoonshineSpec,
    sound: WaveformSettings,
    ends: Transcription,
    most: int,
) -> dict[str, Made]:
    """Returns the file's methods, with examples of their inputs."""
    generator = torch.Generator().manual_seed(0)
    rows = 0.1 * torch.randn(1, sound.most, sound.row, generator=generator)
    return {
        ENCODER: Made(
            SoundEncoder(model).eval(),
            Inputs((rows,)),
            None,
            (),
            refuses_nan=False,
            shorter=Shorter("rows", ("sound",), sound.least),
        ),
        TEXT_DECODER: text_decoder(
            StepDecoder(model.decoder, spec, most), spec, ends, most, states_of(sound.most)
        ),
    }


def text_decoder(
    module: StepDecoder,
    spec: TextSpec,
    ends: Transcription,
    most: int,
    states: int,
    tokens: int = 1,
) -> Made:
    """
    Args:
        most: tokens of a text.
        states: of the longest sound.
        tokens: that it reads at once.
    """
    generator = torch.Generator().manual_seed(0)

    def layers(rows: int) -> list[torch.Tensor]:
        return [
            torch.randn(1, rows, spec.hidden_size, generator=generator)
            for _ in range(spec.decoder_num_hidden_layers)
        ]

    before = min(most // 2, most - tokens)
    bias = torch.full((1, 1, tokens, most + tokens), -torch.inf)
    bias[..., :before] = 0
    bias[..., most:] = later_tokens(bias.new_empty(1, tokens, 1))
    step = (
        *(torch.tensor([tokens * [ends.start]]), before + torch.arange(tokens)[None], bias),
        *(layers(most), layers(most), layers(states), layers(states)),
    )
    shorter = Shorter("states", ("cross_keys", "cross_values"), 1)
    return Made(module.eval(), Inputs(step), None, (), refuses_nan=False, shorter=shorter)
