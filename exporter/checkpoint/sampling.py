"""How a model's authors sample: `generation_config.json`."""

from pathlib import Path

from exporter.errors import ExportError
from exporter.json_object import read_object
from runtime.answer_options import NUMBERS

FILE = "generation_config.json"
_READ = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
_NUMBERS = [number for number in NUMBERS if number.name in _READ]


def read_sampling(directory: Path) -> dict[str, float]:
    """Returns the options of an answer that the authors set, by name; {} where they do not sample.

    Args:
        directory: a checkpoint's; a GGUF file has none.

    Raises:
        ExportError: a value is not a number in the range that runtimes take.
    """
    path = directory / FILE
    fields = read_object(path) if path.is_file() else {}
    if fields.get("do_sample") is not True:
        return {}
    found: dict[str, float] = {}
    for number in _NUMBERS:
        value = fields.get(number.name)
        if value is None and number.name == "temperature":
            value = 1.0  # as transformers samples
        if value is None or value == number.default:
            continue
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not number.low <= value <= number.high:
            raise ExportError(
                f"{path}: {number.name} is {value!r}, but must be a number from {number.low:g} to "
                f"{number.high:g}; correct it, or set do_sample to false."
            )
        found[number.name] = number.type(value)
    return found
