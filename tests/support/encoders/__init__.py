"""What tests know of encoders: the value `DATA` of each file here, named for a model_type."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from transformers import AutoModel, PreTrainedConfig, PreTrainedModel

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class EncoderData:
    """
    Attributes:
        config: of transformers.
        cases: fields that differ from those of a small model, by a name.
        whole: the case that is exported with a tokenizer, and all its files; None: none is.
        tokenizer: makes a trained tokenizer, the text of its tokenizer.json.
        template: the tokens around a text, such as "[CLS] $A [SEP]".
        pooling: a mode of sentence-transformers.
        dense: (in_features, out_features, activation) of the linears behind the pooling.
        prompts: by name; the first is the default.
        auto: makes the reference, which may have a head.
    """

    config: type[PreTrainedConfig]
    cases: Mapping[str, Fields]
    whole: str | None = None
    tokenizer: Callable[[], str] | None = None
    template: str = "$A"
    pooling: str = "mean"
    dense: Sequence[tuple[int, int, str]] = ()
    prompts: Mapping[str, str] = field(default_factory=dict)
    auto: Callable[[PreTrainedConfig], PreTrainedModel] = AutoModel.from_config


DATA: dict[str, EncoderData] = {
    module.name.replace("xlm_", "xlm-"): importlib.import_module(f"{__name__}.{module.name}").DATA
    for module in pkgutil.iter_modules(__path__)
}
CASES = [(name, case) for name, data in DATA.items() for case in data.cases]
WHOLE = [name for name, data in DATA.items() if data.whole is not None]
