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
from exporter.module.method import (
    Method,
    Outputs,
    capture_method,
    check_method,
    expected_outputs,
    samples_of,
)
from exporter.module.samples import Sample
from exporter.seeing.picture_blob import write_picture
from exporter.seeing.question import question_form
from exporter.seeing.sight import VISION_ENCODER, Sight
from exporter.text.prepare import Text

_DELEGATE = "cpu"


@dataclass(frozen=True)
class CapturedSight:
    """What sees, as a captured method."""

    sight: Sight
    method: Method
    tried: Sequence[Sample]
    expected: Outputs

    def lower(self, with_etrecord: bool) -> LoweredMethod:
        """
        Raises:
            DelegateError: an operator is left that no kernel computes.
        """
        with lowering(VISION_ENCODER):
            program = self.method.program
            return lower_method(get_delegates(_DELEGATE), VISION_ENCODER, program, with_etrecord)

    def check(self, delegation: DelegationReport, path: Path) -> dict[str, Any]:
        """Compares the finished file with the module; returns what a report says of it.

        Raises:
            ExportError: a number differs by more than rounding.
        """
        delegates = get_delegates(_DELEGATE)
        opened = partial(load_module, delegates, delegation.users, path)
        result = check_method(self.method, self.tried, self.expected, delegation, opened)
        agreement = result.agreement
        spec, settings = self.sight.spec, self.sight.settings
        return {
            "model_type": spec.model_type,
            "tile": settings.side,
            "rows": spec.rows(settings.side),
            "delegation": delegation.to_dict(),
            "agreement": {"checked": NOT_RUN} if agreement is None else agreement.to_dict(),
        }

    def blob(self, text: Text) -> bytes:
        """Returns how pictures are read, for the file."""
        settings = self.sight.settings
        question = question_form(text.template, settings.place)
        return write_picture(settings, self.sight.spec, question)


def capture_sight(sight: Sight) -> CapturedSight:
    """Reads the weights, and captures the method.

    Raises:
        ExportError: the weights cannot be read.
    """
    method = capture_method(VISION_ENCODER, sight.make())
    tried = samples_of(method)
    return CapturedSight(sight, method, tried, expected_outputs(method, tried))
