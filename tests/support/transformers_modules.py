"""Twenty classes of `transformers` with random weights: published shapes, cut to two layers."""

from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers.models.moonshine.modeling_moonshine import MoonshineEncoder
from transformers.models.whisper.modeling_whisper import WhisperEncoder

PICTURE = (1, 3, 224, 224)
LAYERS = {"num_hidden_layers": 2}


class FirstOutput(nn.Module):
    """A model's first output alone."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.model(x)[0]
        return output


def _made(name: str, inputs: Tensor, model: Any = None, **fields: Any) -> Callable[[], Any]:
    def make() -> Any:
        torch.manual_seed(0)
        config = getattr(transformers, f"{name.removesuffix('Model')}Config")(**fields)
        made = (model or getattr(transformers, name))(config)
        _know_their_input(made, inputs)
        return FirstOutput(made.eval()), (inputs,)

    return make


@torch.no_grad()
def _know_their_input(model: nn.Module, inputs: Tensor) -> None:
    """Sets the statistics of batch norms: without them numbers shrink to nothing, layer by layer,
    and no error can be seen in them."""
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = 1.0
    if norms:
        model.train()(inputs)


_picture = torch.randn(PICTURE, generator=torch.Generator().manual_seed(1))
_tokens = torch.arange(24)[None] * 37 % 1000 + 3
_sound = torch.randn(1, 16000, generator=torch.Generator().manual_seed(2))
_whisper = {
    **{"d_model": 384, "encoder_layers": 2, "encoder_attention_heads": 6},
    **{"encoder_ffn_dim": 1536},
}

MODULES: dict[str, Callable[[], Any]] = {
    "vit": _made("ViTModel", _picture, **LAYERS),
    "deit": _made("DeiTModel", _picture, **LAYERS),
    "beit": _made("BeitModel", _picture, **LAYERS),
    "dinov2": _made("Dinov2Model", _picture, **LAYERS),
    "dinov3": _made("DINOv3ViTModel", _picture, **LAYERS),
    "clip_vision": _made("CLIPVisionModel", _picture, **LAYERS),
    "siglip_vision": _made("SiglipVisionModel", _picture, **LAYERS),
    "resnet": _made("ResNetModel", _picture, depths=[1, 1, 1, 1]),
    "convnext": _made("ConvNextModel", _picture, depths=[1, 1, 1, 1], layer_scale_init_value=1.0),
    "mobilenet_v2": _made("MobileNetV2Model", _picture),
    "swin": _made("SwinModel", _picture, depths=[1, 1, 1, 1]),
    "bert": _made("BertModel", _tokens, **LAYERS),
    "distilbert": _made("DistilBertModel", _tokens, n_layers=2),
    "roberta": _made("RobertaModel", _tokens, **LAYERS),
    "albert": _made("AlbertModel", _tokens, **LAYERS),
    "modernbert": _made("ModernBertModel", _tokens, **LAYERS),
    "clip_text": _made("CLIPTextModel", _tokens, **LAYERS),
    "whisper_encoder": _made("WhisperModel", torch.randn(1, 80, 3000), WhisperEncoder, **_whisper),
    "wav2vec2": _made("Wav2Vec2Model", _sound, **LAYERS),
    "moonshine_encoder": _made(
        "MoonshineModel", _sound, MoonshineEncoder, encoder_num_hidden_layers=2
    ),
}


def make_named(name: str) -> Any:
    return MODULES[name]()


def __getattr__(name: str) -> Any:
    """make_NAME of each, as the export asks for it."""
    if name.removeprefix("make_") in MODULES:
        return MODULES[name.removeprefix("make_")]
    raise AttributeError(name)
