"""How a model's authors sample and end a text, as `generate` of transformers reads it.

`generation_config.json` says it; in older checkpoints, which have none, `config.json`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from exporter.errors import ExportError
from exporter.json_object import read_object
from runtime.answer_options import NUMBERS

FILES = ("generation_config.json", "config.json")  # the first that is there counts
_READ = ("temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty")
# What else changes the tokens that `generate` of transformers chooses.
_NOT_APPLIED = (
    *("min_length", "min_new_tokens", "no_repeat_ngram_size", "penalty_alpha", "dola_layers"),
    *("bad_words_ids", "suppress_tokens", "begin_suppress_tokens", "sequence_bias"),
    *("stop_strings", "exponential_decay_length_penalty", "num_beams", "guidance_scale"),
    *("forced_bos_token_id", "forced_eos_token_id", "watermarking_config", "token_healing"),
    *("encoder_repetition_penalty", "encoder_no_repeat_ngram_size"),
)
_OF_SAMPLING = ("top_h", "epsilon_cutoff", "eta_cutoff")
_OF_GREEDY = ("repetition_penalty",)
_ONE_IS_NONE = ("num_beams", "guidance_scale", "encoder_repetition_penalty", *_OF_GREEDY)
_DEFAULTS = {"temperature": 1.0, "top_k": 50}  # of transformers, where it samples
_NUMBERS = [number for number in NUMBERS if number.name in _READ]


def read_sampling(directory: Path) -> dict[str, float]:
    """Returns the options of an answer that the authors set, by name; {} where they do not sample.

    Args:
        directory: a checkpoint's; a GGUF file has none.

    Raises:
        ExportError: a value is not a number in the range that runtimes take.
    """
    path, fields = _read(directory)
    if not fields.get("do_sample"):
        return {}
    found: dict[str, float] = {}
    for number in _NUMBERS:
        value = fields.get(number.name)
        value = _DEFAULTS.get(number.name) if value is None else value
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


def sampling_note(directory: Path) -> str | None:
    """Returns a sentence on how runners of an exported file choose tokens; None if it is as they do
    where nothing is said."""
    path, fields = _read(directory)
    if not fields.get("do_sample"):
        return None
    sampling = read_sampling(directory)
    if "temperature" not in sampling:
        return (
            f"{path.name} has do_sample and a temperature of 0, which transformers refuses: "
            "runners of the file choose the most likely token."
        )
    set_by_authors = ", ".join(f"{name} {value:g}" for name, value in sampling.items())
    return f"Runners of the file sample by default as its authors do: {set_by_authors}."


def not_applied(directory: Path) -> tuple[str, list[str]]:
    """Returns a file's name, and its fields by which transformers chooses other tokens than runners
    of an exported file do."""
    path, fields = _read(directory)
    others = _OF_SAMPLING if fields.get("do_sample") else _OF_GREEDY
    names = (*_NOT_APPLIED, *others)
    return path.name, [
        name
        for name in names
        if fields.get(name) and not (name in _ONE_IS_NONE and fields[name] == 1)
    ]


def ends_note(directory: Path, ends: Sequence[int]) -> str | None:
    """Returns a sentence on the tokens that end a text in an exported file and do not end one in
    `generate` of transformers; None if there are none.

    Args:
        directory: a checkpoint's; a GGUF file has none.
        ends: the tokens that end a text in the file.
    """
    path, fields = _read(directory)
    stored = fields.get("eos_token_id")
    own = stored if isinstance(stored, list) else [stored]
    more = [str(token) for token in ends if token not in own]
    if not more or not path.is_file():
        return None
    tokens = f"token{'' if len(more) == 1 else 's'} {', '.join(more)}"
    return (
        f"A text also ends at {tokens}, as another of the model's files says. The {path.name} "
        "does not, so generate of transformers would go on there."
    )


def _read(directory: Path) -> tuple[Path, dict[str, Any]]:
    """The file that says how the authors sample, and what it says; {} where there is none."""
    path = next((path for name in FILES if (path := directory / name).is_file()), None)
    if path is None:
        return directory / FILES[0], {}
    fields = read_object(path)
    inner = fields.get("text_config") if path.name != FILES[0] else None
    said = {name: value for name, value in fields.items() if value is not None}
    return path, {**(inner if isinstance(inner, dict) else {}), **said}
