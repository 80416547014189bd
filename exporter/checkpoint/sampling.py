"""How a model's authors sample: `generation_config.json`."""

from pathlib import Path
from typing import Any

from exporter.errors import ExportError
from exporter.json_object import read_object
from runtime.answer_options import NUMBERS

FILE = "generation_config.json"
_READ = ("temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty")
# What else changes the tokens that `generate` of transformers chooses.
_NOT_APPLIED = (
    *("min_length", "min_new_tokens", "no_repeat_ngram_size", "penalty_alpha", "dola_layers"),
    *("bad_words_ids", "suppress_tokens", "begin_suppress_tokens", "sequence_bias"),
    *("stop_strings", "exponential_decay_length_penalty", "num_beams", "guidance_scale"),
    *("forced_bos_token_id", "forced_eos_token_id"),
)
_OF_SAMPLING = ("top_h", "epsilon_cutoff", "eta_cutoff")
_OF_GREEDY = ("repetition_penalty",)
_ONE_IS_NONE = ("num_beams", "guidance_scale", *_OF_GREEDY)
_NUMBERS = [number for number in NUMBERS if number.name in _READ]


def read_sampling(directory: Path) -> dict[str, float]:
    """Returns the options of an answer that the authors set, by name; {} where they do not sample.

    Args:
        directory: a checkpoint's; a GGUF file has none.

    Raises:
        ExportError: a value is not a number in the range that runtimes take.
    """
    path, fields = directory / FILE, _fields(directory)
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


def not_applied(directory: Path) -> list[str]:
    """Returns the fields by which transformers chooses other tokens than runners of a file do."""
    fields = _fields(directory)
    others = _OF_SAMPLING if fields.get("do_sample") is True else _OF_GREEDY
    names = (*_NOT_APPLIED, *others)
    return [
        name
        for name in names
        if fields.get(name) and not (name in _ONE_IS_NONE and fields[name] == 1)
    ]


def _fields(directory: Path) -> dict[str, Any]:
    path = directory / FILE
    return read_object(path) if path.is_file() else {}
