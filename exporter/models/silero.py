"""Silero's detector of speech, of 16 kHz, over rows of sound.

It is the net of the package silero-vad (tinygrad_model.py there): the magnitudes of a short-time
Fourier transform, four convolutions, an LSTM cell that remembers the rows before, a probability.
A row has four frames, so that convolutions are linears of a row: all rows go through them at once.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

CONTEXT, STEP = 64, 512  # samples of a row: those before it, and its own
STATE = 128
_FRAME, _HOP, _PAD = 256, 128, 64
_FRAMES = (CONTEXT + STEP + _PAD - _FRAME) // _HOP + 1
_BINS = _FRAME // 2 + 1
# Of each convolution: channels in and out, and the stride; kernels are of 3, with one zero around.
_CONVOLUTIONS = (_BINS, 128, 1), (128, 64, 2), (64, 64, 2), (64, 128, 1)


def shapes() -> dict[str, tuple[int, ...]]:
    """What the published weights have."""
    named: dict[str, tuple[int, ...]] = {"stft_conv.weight": (2 * _BINS, 1, _FRAME)}
    for at, (inputs, outputs, _) in enumerate(_CONVOLUTIONS, 1):
        named |= {f"conv{at}.weight": (outputs, inputs, 3), f"conv{at}.bias": (outputs,)}
    for part in ("ih", "hh"):
        named |= {
            f"lstm_cell.weight_{part}": (4 * STATE, STATE),
            f"lstm_cell.bias_{part}": (4 * STATE,),
        }
    return {**named, "final_conv.weight": (1, STATE, 1), "final_conv.bias": (1,)}


class SpeechDetector(nn.Module):
    """Whether each row of a sound has speech."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        """
        Args:
            weights: float32, of the names and shapes of shapes().
        """
        super().__init__()
        spectrum = weights["stft_conv.weight"][:, 0]
        self.frame = _linear(spectrum)
        self.last_frame = _linear(_reflected(spectrum))
        layers: list[nn.Module] = []
        frames = _FRAMES
        for at, (_, _, stride) in enumerate(_CONVOLUTIONS, 1):
            weight, bias = weights[f"conv{at}.weight"], weights[f"conv{at}.bias"]
            dense = _of_rows(weight, frames, stride)
            frames = dense.shape[0] // len(bias)
            layers += [_linear(dense, bias.repeat(frames)), nn.ReLU()]
        self.features = nn.Sequential(*layers)
        self.lstm = nn.LSTM(STATE, STATE, batch_first=True)
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            getattr(self.lstm, f"{name}_l0").data = weights[f"lstm_cell.{name}"]
        self.speech = _linear(weights["final_conv.weight"][..., 0], weights["final_conv.bias"])

    def forward(
        self, sound: Tensor, hidden: Tensor, memory: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """
        Args:
            sound: (1, rows, CONTEXT + STEP); each row begins with the end of the one before.
            hidden, memory: (1, 1, STATE), what the rows before left; zeros before the first.

        Returns:
            Probabilities (1, rows, 1), and the state that the rows leave.
        """
        real, imaginary = [], []
        for at in range(_FRAMES):
            layer = self.frame if at < _FRAMES - 1 else self.last_frame
            part = sound[..., at * _HOP : at * _HOP + layer.in_features]
            both = layer(part)
            real.append(both[..., :_BINS])
            imaginary.append(both[..., _BINS:])
        across, along = torch.cat(real, -1), torch.cat(imaginary, -1)
        features = self.features((across * across + along * along).sqrt())
        rows, (hidden, memory) = self.lstm(features, (hidden, memory))
        return torch.sigmoid(self.speech(F.relu(rows))), hidden, memory


def _linear(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    made = nn.Linear(weight.shape[1], weight.shape[0], bias is not None)
    made.weight.data = weight.contiguous()
    if bias is not None:
        made.bias.data = bias.contiguous()
    return made


def _reflected(spectrum: Tensor) -> Tensor:
    """The weights of a frame whose last samples are those before them, mirrored."""
    kept = spectrum[:, : _FRAME - _PAD].clone()
    kept[:, -_PAD - 1 : -1] += spectrum[:, -_PAD:].flip(1)
    return kept


def _of_rows(weight: Tensor, frames: int, stride: int) -> Tensor:
    """A convolution's weights as those of a linear from all frames of a row to all of its own."""
    outputs, inputs, kernel = weight.shape
    after = (frames - 1) // stride + 1
    dense = weight.new_zeros(after, outputs, frames, inputs)
    for to in range(after):
        for tap in range(kernel):
            source = to * stride + tap - 1
            if 0 <= source < frames:
                dense[to, :, source] = weight[..., tap]
    return dense.reshape(after * outputs, frames * inputs)
