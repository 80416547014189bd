"""What sees, as a method of the language model's file."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from delegates import DelegationReport, get_delegates
from delegates.methods import lowering
from delegates.module import LoweredMethod, load_module, lower_method
from exporter.file.report import NOT_RUN
from exporter.listener import Listener
from exporter.module.method import (
    Method,
    Outputs,
    capture_known,
    check_method,
    expected_outputs,
    samples_of,
)
from exporter.module.samples import Sample
from exporter.module.source import Inputs, Made
from exporter.module.window_scheme import describe_scheme
from exporter.seeing.picture_blob import write_picture
from exporter.seeing.quality import HeldOut, RowQuality
from exporter.seeing.quantize import quantize
from exporter.seeing.question import question_form
from exporter.seeing.sight import VISION_ENCODER, Sight
from exporter.seeing.towers import shorter_of
from exporter.text.prepare import Text
from quant.integers import dequantized_once


@dataclass(frozen=True)
class CapturedSight:
    """What sees, as a captured method.

    Attributes:
        delegate: by name, as get_delegates() takes it.
        held_out: None in float, or where no pictures could be read.
    """

    sight: Sight
    delegate: str
    method: Method
    tried: Sequence[Sample]
    expected: Outputs
    held_out: HeldOut | None

    def lower(self, with_etrecord: bool) -> LoweredMethod:
        """
        Raises:
            DelegateError: an operator is left that no kernel computes.
        """
        with lowering(VISION_ENCODER):
            program = self.method.program
            return lower_method(
                get_delegates(self.delegate), VISION_ENCODER, program, with_etrecord
            )

    def check(self, delegation: DelegationReport, path: Path) -> dict[str, Any]:
        """Compares the finished file with the module; returns what a report says of it.

        Raises:
            ExportError: a number differs by more than rounding.
        """
        delegates = get_delegates(self.delegate)
        opened = partial(load_module, delegates, delegation.users, path)
        result = check_method(self.method, self.tried, self.expected, delegation, opened)
        agreement, quality = result.agreement, self._quality(opened())
        spec, settings = self.sight.spec, self.sight.settings
        return {
            "model_type": spec.model_type,
            "tile": settings.side,
            "rows": spec.rows(settings.side),
            "quantization": describe_scheme(self.sight.scheme),
            "quality": None if quality is None else quality.to_dict(),
            "delegation": delegation.to_dict(),
            "agreement": {"checked": NOT_RUN} if agreement is None else agreement.to_dict(),
        }

    def _quality(self, file: Any) -> RowQuality | None:
        """That of the file, or of the module where this machine cannot run the file."""
        if self.held_out is None:
            return None
        if file is not None:
            return self.held_out.measure(lambda tile: file([tile], method=VISION_ENCODER)[0])
        with dequantized_once(self.method.made.module):
            return self.held_out.measure(self.method.made.module)

    def blob(self, text: Text) -> bytes:
        """Returns how pictures are read, for the file."""
        settings = self.sight.settings
        question = question_form(text.template, settings.text.place)
        return write_picture(settings, self.sight.spec, question)


def capture_sight(sight: Sight, delegate: str, listener: Listener) -> CapturedSight:
    """Reads the weights, quantizes them as planned, and captures the method.

    Args:
        delegate: by name, as get_delegates() takes it.

    Raises:
        ExportError, QuantError: the weights cannot be read, or are not finite.
    """
    made, held_out = _made(sight, delegate, listener)
    method = capture_known(VISION_ENCODER, made)
    tried = samples_of(method)
    with dequantized_once(made.module):
        expected = expected_outputs(method, tried)
    return CapturedSight(sight, delegate, method, tried, expected, held_out)


def _made(sight: Sight, delegate: str, listener: Listener) -> tuple[Made, HeldOut | None]:
    tower, tiles = sight.load(), sight.tiles
    made = partial(Made, tower, Inputs((sight.example(),)), None, shorter=shorter_of(sight.spec))
    if sight.scheme.name == "none":
        return made(()), None
    listener.stage("quantize what sees")
    held_out = None if tiles is None else HeldOut.of(tower, tiles.measured)
    calibrated = () if tiles is None else tiles.calibrated
    quantize(tower, sight.scheme, calibrated, listener.progress, delegate == "cpu")
    calibration = () if tiles is None else tiles.measured[:1]
    return made([Inputs((tile,)) for tile in calibration]), held_out
