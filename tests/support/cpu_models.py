"""Small random models of every architecture, lowered to the CPU delegate."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from support.decoder_specs import SMALL, varied
from support.op_list import OpList, read_calls
from support.small_models import quantized_model, random_model, with_two_levels
from torch.export import ExportedProgram

from delegates import Lowered
from delegates.cpu import lower
from exporter.capture.program import capture
from exporter.file.agreement import Reference, reference_logits
from exporter.models.decoder import CausalLM
from quant.scheme import Scheme
from quant.weight_type import WeightType

CONTEXT = 48
TINY = varied(
    SMALL,
    vocab_size=90,  # no multiple of 16
    hidden_size=72,
    intermediate_size=100,
    num_attention_heads=6,
    num_key_value_heads=2,
    head_dim=12,
    tie_word_embeddings=False,
)
ARCHITECTURES = {
    "llama": TINY,
    "tied": varied(TINY, tie_word_embeddings=True),
    "qwen2": varied(TINY, attention_bias=True),
    "qwen3": varied(TINY, qk_norm="heads", head_dim=20, num_key_value_heads=1),
    "smollm3": varied(TINY, num_hidden_layers=2, no_rope_layers=(1,)),
    "biases": varied(TINY, attention_bias=True, attention_out_bias=True, mlp_bias=True),
}
# What stands for all that the delegate takes: architectures by name, each in another format.
MODELS = [
    ("llama", Scheme("none")),
    ("tied", Scheme("rtn4")),
    ("qwen2", Scheme("rtn4", 64, 4)),
    ("qwen3", Scheme("rtn4", 32, 4)),
    ("smollm3", Scheme("rtn8")),
    ("tied", Scheme("keep")),
    ("biases", Scheme("rtn4", 128)),
]


@dataclass(frozen=True)
class LoweredModel:
    """
    Attributes:
        reference: the eager model's logits, and how far rounding may carry others from them.
        calls: the delegate calls of the written file.
    """

    reference: Reference
    lowered: Lowered
    path: Path
    calls: list[OpList]


LowerArchitecture = Callable[[str, Scheme], LoweredModel]


def prepare(model: CausalLM, scheme: Scheme) -> CausalLM:
    """The model as an export would quantize it."""
    return model if scheme.name == "none" else quantized_model(model, scheme)


def lower_model(
    model: CausalLM, scheme: Scheme, directory: Path, max_seq_len: int = CONTEXT
) -> LoweredModel:
    """Captures, lowers and writes a model."""
    quantized = prepare(model, scheme)
    generator = torch.Generator().manual_seed(4)
    tokens = torch.randint(model.config.vocab_size, (32,), generator=generator)
    reference = reference_logits(quantized, tokens, max_seq_len, scheme.name != "none")
    return write(capture(quantized, CONTEXT, max_seq_len), directory, reference)


def lower_two_levels(name: str, type: WeightType, directory: Path) -> LoweredModel:
    """The same of a named architecture whose every matrix has a type of two levels."""
    model = prepare(random_model(ARCHITECTURES[name]), Scheme("rtn8", whole_rows=True))
    with_two_levels(model, type)
    reference = reference_logits(model, torch.arange(32), CONTEXT, True)
    return write(capture(model, CONTEXT, CONTEXT), directory, reference)


def write(program: ExportedProgram, directory: Path, reference: Reference) -> LoweredModel:
    lowered = lower(program, {}, {}, with_etrecord=False)
    path = directory / "model.pte"
    with open(path, "wb") as file:
        lowered.program.write_to_file(file)
    return LoweredModel(reference, lowered, path, read_calls(path, directory))


def lower_architecture(
    name: str, scheme: Scheme, directory: Path, max_seq_len: int = CONTEXT
) -> LoweredModel:
    return lower_model(random_model(ARCHITECTURES[name]), scheme, directory, max_seq_len)
