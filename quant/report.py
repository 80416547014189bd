"""What quantization did to a model: its size, its quality."""

from dataclasses import asdict, dataclass
from typing import Any

from quant.measure.quality import Quality
from quant.measure.size import StoredSize


@dataclass(frozen=True)
class QuantReport:
    """The outcome of one `quantize`.

    Attributes:
        quality: None where no evaluation text was given.
        layer_errors: relative root-mean-square error of the hidden states after each decoder
            layer on the evaluation text; empty without one.
        calibration_tokens: 0 for schemes that do not calibrate.
        widths: bits of each kind of part, for people.
        method: how the integers were chosen, by the names of quant.method; None if they were not.
        cached_layers: how many layers were found quantized in the cache.
        experts: how many the layers have, together.
        rare_experts: those to which the calibration text gave too few tokens: their weights are
            rounded to nearest at searched scales.
    """

    scheme: str
    group_size: int
    head_bits: int | None
    size: StoredSize
    quality: Quality | None
    layer_errors: tuple[float, ...]
    calibration_tokens: int
    seconds: float
    widths: dict[str, str]
    method: dict[str, Any] | None
    cached_layers: int = 0
    experts: int = 0
    rare_experts: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        fields = asdict(self)
        fields["layer_errors"] = list(self.layer_errors)
        fields["rare_experts"] = list(self.rare_experts)
        fields["bits_per_weight"] = self.size.bits_per_weight
        fields["linear_bits_per_weight"] = self.size.linear_bits_per_weight
        return fields
