"""The options that say how a model is quantized, for every command that quantizes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from exporter.command_line.filled import FilledPath, FilledText
from exporter.plan.least_memory import check_max_memory
from exporter.text.file import read_text_file
from quant.errors import QuantError
from quant.machine.device_name import check_device_name
from quant.machine.memory_size import parse_size
from quant.method import SETTINGS
from quant.scheme import Scheme, scheme_from_text, weighed

CALIBRATION_TOKENS = click.IntRange(1, 1 << 24)  # the most: 512 times the default
Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Quantization:
    """What these options were given, as fields of a command's request."""

    scheme: str
    method: str | None
    group_size: int
    head_bits: int | None
    calibration: Path | None
    calibration_tokens: int | None
    imatrix: Path | None
    max_memory: str | None
    device: str

    def chosen_scheme(self) -> Scheme:
        """Raises QuantError if a name or a size is not valid."""
        rest = self.group_size, self.head_bits
        if self.imatrix is None:
            return scheme_from_text(self.scheme, self.method, *rest)
        plain = weighed(scheme_from_text(self.scheme, None, *rest))
        if self.method is None:
            return plain
        return weighed(scheme_from_text(self.scheme, f"scales=searched,{self.method}", *rest))

    def check(self, has_budget: bool = False) -> None:
        """Raises QuantError or ExportError if an option is not valid; imports no large library.

        Args:
            has_budget: whether bits are allocated by a budget, which needs calibration.
        """
        scheme = self.chosen_scheme()
        if self.calibration_tokens is not None and not (scheme.needs_calibration or has_budget):
            raise QuantError(
                f"--calibration-tokens {self.calibration_tokens} has no effect with {self.scheme}, "
                "which does not calibrate; leave it out, or take gptq4."
            )
        if self.calibration is not None:
            text, data = read_text_file(self.calibration)
            if not text.strip():
                raise QuantError(
                    f"The calibration text {self.calibration} is empty: give a longer text."
                )
            if self.calibration_tokens is not None and self.calibration_tokens > len(data):
                raise QuantError(
                    f"--calibration-tokens {self.calibration_tokens} is more than the "
                    f"{len(data)} bytes of {self.calibration}: ask for fewer, or give a longer "
                    "text."
                )
        if self.max_memory is not None:
            check_max_memory(parse_size(self.max_memory, "--max-memory"))
        if self.imatrix is not None:
            from exporter.catalogue.imatrix_file import read_imatrix  # here: it imports NumPy

            read_imatrix(self.imatrix)
        check_device_name(self.device)


def scheme_options(command: Command) -> Command:
    """Adds the options of the scheme: the fields of Quantization to `head_bits`."""
    for option in reversed(_SCHEME):
        command = option(command)
    return command


def calibration_options(command: Command) -> Command:
    """Adds the options of the text to calibrate on."""
    for option in reversed(_CALIBRATION):
        command = option(command)
    return command


_SCHEME = [
    click.option(
        "--quant",
        "scheme",
        metavar="SCHEME",
        default="gptq4",
        help="none (float32), rtn8 (8 bits), or 4 bits: gptq4 (calibrated, best quality), rtn4 "
        "(rounded to nearest), hqq4, awq4. Or keep: the integers of a GGUF file of Q8_0 or Q4_0, "
        "or of a symmetric GPTQ, AWQ or compressed-tensors checkpoint.",
    ),
    click.option(
        "--method",
        metavar="NAME=VALUE[,...]",
        type=FilledText("write NAME=VALUE, such as rotation=none"),
        help="How a 4-bit scheme chooses its integers, such as drift=none,descent=0 or "
        f"rotation=none; the names are {', '.join(SETTINGS)}.",
    ),
    click.option(
        "--group-size",
        metavar="N",
        default=32,
        help="Number of inputs that share a scale: 32, 64 or 128. xnnpack, coreml and mlx store "
        "rtn8 with one scale a row.",
    ),
    click.option(
        "--head-bits",
        metavar="N",
        type=int,
        help="Bits of the embedding and lm_head: 8, 6, 5, 4, 3 or 2, with those of --quant in all "
        "layers. By default 8; gptq4 for cpu and mps mixes 4 to 8 bits everywhere, within the same "
        "size.",
    ),
]
_CALIBRATION = [
    click.option(
        "--calibration",
        type=FilledPath("name a text file"),
        help="Text for calibration and for measuring quality (on its last tenth, which is held "
        "out). By default: texts in the package, and for half of the calibration a text that "
        "the model writes. Of a model that hears, a directory of recordings.",
    ),
    click.option(
        "--calibration-tokens",
        metavar="N",
        type=CALIBRATION_TOKENS,
        help="Number of tokens to calibrate on (gptq4, awq4, and where bits are allocated by a "
        "size). By default 32768, or 16384 for models of 100 million weights or more.",
    ),
    click.option(
        "--imatrix",
        type=FilledPath("name a file that llama-imatrix wrote"),
        help="For rtn4: llama.cpp's importance matrix of the model, by which the scales of its "
        "layers are searched.",
    ),
]
