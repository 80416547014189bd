"""What tells where a sound has speech: Silero's net, as a method of the file."""

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from exporter.errors import ExportError
from exporter.hearing.source import HearingSource
from exporter.models.silero import CONTEXT, STATE, STEP, SpeechDetector, shapes
from exporter.module.source import Inputs, Made

_ROWS = 32  # of a call: a second


def speech_detector(path: Path, source: HearingSource[Any]) -> Made:
    """Reads the detector's weights for the file of a model.

    Raises:
        ExportError: it cannot be read or is another file, or the model reads sound that arrives.
    """
    if source.facts["streams"]:
        raise ExportError(
            f"--vad has no effect on {source.model_type}, which reads sound as it arrives: leave "
            "it out."
        )
    try:
        weights = load_file(path)
    except (OSError, SafetensorError) as error:
        raise ExportError(
            f"{path} cannot be read as safetensors ({error}); name silero_vad_16k.safetensors, of "
            "the package silero-vad."
        ) from None
    for name, shape in shapes().items():
        if name not in weights or weights[name].shape != shape:
            found = f"has {name} {tuple(weights[name].shape)}" if name in weights else "lacks it"
            raise ExportError(
                f"{path} is not Silero's detector for 16 kHz, which has {name} {shape}: it {found}."
                " Name silero_vad_16k.safetensors, of the package silero-vad."
            )
    detector = SpeechDetector({name: weights[name].float() for name in shapes()})
    generator = torch.Generator().manual_seed(0)
    sound = 0.1 * torch.randn(1, _ROWS, CONTEXT + STEP, generator=generator)
    state = torch.zeros(1, 1, STATE)
    inputs = Inputs((sound, state, state.clone()))
    detector.eval().requires_grad_(False)
    return Made(detector, inputs, None, (), refuses_nan=False)
