"""What an export has decided: one value, which all of its steps read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import torch

from delegates import Limits, get_delegate
from delegates.features import Feature
from exporter.checkpoint import Checkpoint
from exporter.models.decoder import CausalLM
from exporter.models.spec import DecoderSpec
from exporter.models.text_decoder import token_row_size
from exporter.options import ExportOptions
from exporter.plan.cache_type import cached_bytes
from exporter.seeing.sight import Sight
from exporter.text.prepare import Text
from quant.importance import Importance
from quant.machine.resources import Resources
from quant.scheme import Scheme

if TYPE_CHECKING:
    from delegates import Delegate


@dataclass(frozen=True, eq=False)
class Plan:
    """One export; steps that decide more return another, and nothing is changed in place.

    Attributes:
        options: as the user gave them; of the scheme, only `scheme` below is read.
        limits: of the delegate that the program is lowered to.
        checkpoint: the opened weights.
        empty: the checkpoint's model on the meta device, for its shapes.
        text: NO_TEXT where nothing is calibrated, measured or written.
        scheme: how weights are stored, as the delegate can store them.
        max_context_len, max_seq_len: with defaults filled in.
        resources: what quantizes: the cache, where large data is kept, the ranks, the device.
        file_size: estimated bytes of the file; 0 if none is written.
        sampling: the options of an answer that the model's authors set.
        sight: what sees, if the file has it.
        importance: of columns, in the search of scales.
    """

    options: ExportOptions
    limits: Limits
    checkpoint: Checkpoint
    empty: CausalLM
    text: Text
    scheme: Scheme
    max_context_len: int
    max_seq_len: int
    resources: Resources
    file_size: int = 0
    sampling: Mapping[str, float] = field(default_factory=dict)
    sight: Sight | None = None
    importance: Importance | None = None

    @property
    def delegate(self) -> "Delegate":
        """What the program is lowered to; it is imported on first use."""
        return get_delegate(self.options.delegate)

    @property
    def has_parts(self) -> bool:
        """Whether the file has the decoder in two parts as well."""
        return self.options.parts or self.sight is not None

    @property
    def reads_pictures(self) -> bool:
        """Whether the file says how pictures are read, for our own runner."""
        return self.sight is not None and self.options.delegate == "cpu"

    @property
    def row_size(self) -> int:
        """Numbers of a row that the second part reads."""
        own = token_row_size(self.checkpoint.config)
        if self.sight is None:
            return own
        return own + self.sight.spec.row_size - self.checkpoint.config.hidden_size

    @cached_property
    def spec(self) -> DecoderSpec:
        """The decoder of the file, for its context."""
        both = Feature.ROTARY_BY_LENGTH in self.limits.supports
        return self.checkpoint.config.for_context(self.max_context_len, both)

    @cached_property
    def item_bytes(self) -> int:
        """Bytes of a number in the caches of keys and values."""
        return cached_bytes(self.empty, self.scheme, self.limits)


def empty_model(spec: DecoderSpec) -> CausalLM:
    """Returns a model on the meta device."""
    with torch.device("meta"):
        return CausalLM(spec)
