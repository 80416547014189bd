"""What tests of quantization share: small random weights in memory, and the 260K model."""

from pathlib import Path

import sentencepiece
import torch
from safetensors.torch import load_file
from support.decoder_specs import SMALL, varied
from torch import Tensor, nn

from exporter.catalogue.model_config import read_config
from exporter.models.decoder import CausalLM
from exporter.models.spec import DecoderSpec
from quant.measure.quality import Quality, compare_logits
from quant.modules import QuantizedWeight
from quant.quantize import quantize
from quant.scheme import Scheme

CONFIG = varied(SMALL, num_hidden_layers=3, vocab_size=200, context_limit=128)


class MemoryWeights:
    """A checkpoint in memory that counts its readers."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self.tensors = tensors
        self.released = 0
        self.largest_float_read = 0

    def tensor(self, name: str) -> Tensor:
        if name == "lm_head.weight" and name not in self.tensors:
            name = "model.embed_tokens.weight"
        return self.tensors[name]

    def integers(self, name: str) -> QuantizedWeight | None:
        """None: they are floats, which `keep` rounds to int8 in groups."""

    def load_into(self, module: nn.Module, prefix: str) -> None:
        for path, submodule in module.named_modules():
            for key, _ in list(submodule.named_parameters(recurse=False)):
                stored = self.tensor(prefix + (f"{path}.{key}" if path else key))
                values = stored.to(torch.float32, copy=True)
                self.largest_float_read = max(self.largest_float_read, values.numel())
                submodule.register_parameter(key, nn.Parameter(values, requires_grad=False))

    def release(self) -> None:
        self.released += 1


def random_weights(config: DecoderSpec, dtype: torch.dtype = torch.float32) -> MemoryWeights:
    torch.manual_seed(0)
    model = CausalLM(config)
    tensors = {name: tensor.detach().to(dtype) for name, tensor in model.state_dict().items()}
    if config.tie_word_embeddings:
        del tensors["lm_head.weight"]
    return MemoryWeights(tensors)


def empty_model(config: DecoderSpec) -> CausalLM:
    with torch.device("meta"):
        return CausalLM(config)


def tokens(windows: int = 4, seq_len: int = 16, seed: int = 0, vocab_size: int = 200) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, vocab_size, (windows, seq_len), generator=generator)


def content(model: CausalLM) -> dict[str, Tensor]:
    """Every stored number of a model, integers and scales apart."""
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    return {**parameters, **dict(model.named_buffers(remove_duplicate=False))}


class Stories:
    """The 260K model, its calibration windows and five stories to measure on."""

    def __init__(self, data: Path) -> None:
        directory = data / "stories260K"
        _, self.config = read_config(directory / "config.json")
        self.weights = MemoryWeights(load_file(directory / "model.safetensors"))
        spiece = sentencepiece.SentencePieceProcessor(str(directory / "tokenizer.model"))
        ids = spiece.encode((data / "text" / "tinystories_calibration.txt").read_text("utf-8"))
        starts = range(0, 100 * 255, 255)
        self.calibration = torch.tensor([[1, *ids[start : start + 255]] for start in starts])
        text = (data / "text" / "tinystories_sample.txt").read_text("utf-8")
        stories = [story.strip() for story in text.split("<|endoftext|>") if story.strip()]
        self.stories = [torch.tensor([[1, *spiece.encode(story)]]) for story in stories]
        self.reference = self.quantized(Scheme("none"))

    def quantized(self, scheme: Scheme) -> CausalLM:
        model = empty_model(self.config)
        quantize(model, scheme, self.weights, calibration=self.calibration)
        return model

    @torch.no_grad()
    def quality(self, scheme: Scheme) -> Quality:
        model = self.quantized(scheme)
        reference = torch.cat([self.reference.logits(s)[0, :-1] for s in self.stories])
        logits = torch.cat([model.logits(s)[0, :-1] for s in self.stories])
        return compare_logits(reference, logits, torch.cat([s[0, 1:] for s in self.stories]))
