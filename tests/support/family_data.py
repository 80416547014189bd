"""What tests know of a family: the value `DATA` of a file of `support/families`."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from gguf import GGMLQuantizationType as Type
from support.rotary_fields import drawn_rope

Fields = Mapping[str, Any]

# Values of fields that several families draw; a drawn model has four layers.
EITHER = [False, True]
ACTIVATIONS = ["silu", "gelu", "gelu_pytorch_tanh", "relu"]
WINDOWS = [1, 5, 9, 33, 100]
_KINDS = ("sliding_attention", "full_attention")
KINDS = [list(kinds) for kinds in product(_KINDS, repeat=4)]
MAYBE_KINDS = [None] * len(KINDS) + KINDS
MIXED = ["sliding_attention", "full_attention", "sliding_attention"]

# Keys of GGUF files, behind the architecture's name and a dot, by fields.
HEAD_KEYS = {"attention.key_length": "head_dim", "attention.value_length": "head_dim"}
WINDOW_KEYS = {"attention.sliding_window": "sliding_window"}
EXPERT_KEYS = {"expert_count": "num_local_experts", "expert_used_count": "num_experts_per_tok"}


def either(*names: str) -> dict[str, list[bool]]:
    """Fields that are true or false."""
    return dict.fromkeys(names, EITHER)


def yarn_keys(original: int) -> dict[str, Any]:
    """What GGUF says of YaRN by a factor of 4."""
    return {
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 4.0,
        "rope.scaling.original_context_length": original,
    }


@dataclass(frozen=True)
class Row:
    """A row of the table in exporter/models/families/README.md.

    Attributes:
        beyond: what its models have that Llama has not.
        parity: as `support.family_parity` measures it.
        whole, pieces: delegates that take all of a model in one call, or in several.
        refused: which do not, and why.
    """

    beyond: str
    parity: str
    whole: str = "`cpu`; others not tried"
    pieces: str = ""
    refused: str = ""


@dataclass(frozen=True)
class GgufForm:
    """How a GGUF file has a model.

    Attributes:
        names: the architecture's own keys, by the config's fields.
        more: metadata behind the architecture's name and a dot.
        factors: tensors beside the model's; "llama3": those of this rotation.
        type: of matrices.
        experts: the type of the experts' matrices.
        fused: whether queries, keys and values are one tensor; of Qwen3-Next, whether what the
            delta rule reads is.
    """

    architecture: str
    names: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    pairs_rotate: bool = False
    factors: Mapping[str, Any] = field(default_factory=dict)
    type: Type = Type.F32
    experts: Type = Type.F32
    fused: bool = False


@dataclass(frozen=True)
class FamilyData:
    """The test data of one family.

    Attributes:
        models: which published models it is, for the table.
        row: their row, or the model_type of the family in whose row they are.
        cases: what models of transformers add to SHAPE, by a label: each feature on in one of
            them, and off in another.
        drawn: values of fields for random models. A key of several fields has values of several.
        rotary: draws rotary parameters, for a head's size.
        swept: the label of the config whose every field is changed; "": the first.
        checked: labels of models that `make check` exports, not only `make soak`.
        gguf: by labels of cases, how llama.cpp's converter stores them.
        norms_from_one: whether checkpoints store norms as their distance from 1.
    """

    models: str
    row: Row | str
    cases: Mapping[str, Fields]
    drawn: Mapping[str | tuple[str, ...], Sequence[Any]] = field(default_factory=dict)
    rotary: Callable[[random.Random, int], Fields] = drawn_rope
    swept: str = ""
    checked: Sequence[str] = ()
    gguf: Mapping[str, GgufForm] = field(default_factory=dict)
    norms_from_one: bool = False
