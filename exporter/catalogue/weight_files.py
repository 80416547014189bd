"""Which files make a model directory. Importing this module is fast."""

import re
from pathlib import Path

from exporter.catalogue.adapters import ADAPTER_CONFIG
from exporter.catalogue.file_start import check_gguf_start, is_program
from exporter.errors import ExportError
from exporter.json_object import read_object

CONFIG = "config.json"
SINGLE, PICKLED = "model.safetensors", "pytorch_model.bin"
INDEX, PICKLED_INDEX = f"{SINGLE}.index.json", f"{PICKLED}.index.json"
FILES = (SINGLE, INDEX, PICKLED, PICKLED_INDEX)  # the first that is there is read
INDEX_END = ".index.json"
NAMED = "transformers_weights"  # of config.json: the file that is read instead of them
PARAMS = "params.json"  # Meta's config
TUNED = "model-00001-of-00001.bin"  # torchtune's weights


def check_model_directory(directory: Path) -> None:
    """Checks that a directory has the files of a model; not what they hold.

    Raises:
        ExportError: it has no config, no weights or not all of them.
    """
    if meta_files(directory) and not has_weights(directory):
        return
    if not (directory / CONFIG).is_file():
        raise no_config(directory / CONFIG)
    if not has_weights(directory) and not is_tuned(directory):
        raise no_weights(directory)


def check_model_file(path: Path) -> None:
    """Checks that a file, by its name and its header, is a checkpoint; not what it holds.

    Raises:
        ExportError: it cannot.
    """
    if is_program(str(path)):
        raise ExportError(
            f"{path} is an exported program, not a checkpoint: run it, or export its checkpoint "
            "again."
        )
    if path.suffix != ".gguf":
        raise ExportError(
            f"{path} is a file; give a .gguf file, or the directory that holds config.json and the "
            "weights."
        )
    check_gguf_start(path)
    from exporter.catalogue.gguf_file import GgufFile  # here: a tenth of a second to import

    GgufFile(path)


def check_headers(directory: Path) -> None:
    """Checks the headers of the safetensors files that a directory's model is read from.

    Raises:
        ExportError: one is damaged.
    """
    from exporter.catalogue.safetensors_header import SafetensorsHeader

    name = weights_name(directory)
    if name is None:
        paths = shards(directory)
    elif name.endswith(INDEX_END):
        weight_map = read_object(directory / name).get("weight_map")
        places = weight_map.values() if isinstance(weight_map, dict) else ()
        paths = [directory / place for place in sorted({str(place) for place in places})]
    else:
        paths = [directory / name]
    for path in paths:
        if path.suffix == ".safetensors" and path.is_file():
            SafetensorsHeader(path)


def named_weights(directory: Path) -> str | None:
    """Returns the file of weights, or index of shards, that a directory's config names; None: none.

    Raises:
        ExportError: what it names is not a safetensors file, or an index of them, in the directory.
    """
    path = directory / CONFIG
    name = read_object(path).get(NAMED) if path.is_file() else None
    if name is None:
        return None
    ends = (".safetensors", ".safetensors.index.json")
    inside = isinstance(name, str) and name.endswith(ends) and Path(name).name == name
    if not inside or not (directory / name).is_file():
        raise ExportError(
            f"{path} says that the weights are in {NAMED} {name!r}, which is not a safetensors "
            f"file, or an index of them, in {directory}; put it there, or remove the field."
        )
    return name


def weights_name(directory: Path) -> str | None:
    """Returns the file, or index of shards, that a directory's weights are read from, but for
    shards without an index.

    Raises:
        ExportError: as `named_weights` does.
    """
    there = (name for name in FILES if (directory / name).is_file())
    return named_weights(directory) or next(there, None)


def has_weights(directory: Path) -> bool:
    """Whether a directory holds weights under one of Hugging Face's names, or that of its config.

    Raises:
        ExportError: as `named_weights` does.
    """
    return weights_name(directory) is not None or bool(shards(directory))


def is_tuned(directory: Path) -> bool:
    """Whether a directory holds a file under the name that torchtune gives it."""
    return (directory / TUNED).is_file()


def meta_files(directory: Path) -> list[Path]:
    """Returns Meta's weight files in a directory, in order; empty if it has none."""
    if is_tuned(directory) and (directory / PARAMS).is_file():
        return [directory / TUNED]
    return sorted(directory.glob("consolidated.*.pth"))


def shards(directory: Path) -> list[Path]:
    """Returns the shards of a model without an index, which their names tell.

    Raises:
        ExportError: some of them are missing.
    """
    for single in (SINGLE, PICKLED):
        stem, _, end = single.partition(".")
        named = {path.name for path in directory.glob(f"{stem}-*-of-*.{end}")}
        found = [name for name in named if re.fullmatch(r".*-\d{5}-of-\d{5}\.\w+", name)]
        if not found:
            continue
        count = max(int(name.partition("-of-")[2][:5]) for name in found)
        expected = [f"{stem}-{number:05d}-of-{count:05d}.{end}" for number in range(1, count + 1)]
        absent = [name for name in expected if name not in named]
        if absent:
            raise ExportError(
                f"{directory} lacks {len(absent)} of {count} files of weights: "
                f"{', '.join(absent[:5])}{', ...' if len(absent) > 5 else ''}; download them as "
                "well."
            )
        return [directory / name for name in expected]
    return []


def no_config(path: Path) -> ExportError:
    """Returns the error of a config that is missing."""
    adapter = path.parent / ADAPTER_CONFIG
    if adapter.is_file():
        base = read_object(adapter).get("base_model_name_or_path")
        named = f" {base}" if isinstance(base, str) and base else ""
        return ExportError(
            f"{path.parent} is an adapter, not a model: export its base model{named} with "
            f"--adapter {path.parent}."
        )
    return ExportError(
        f"{path.parent} has no {path.name}; a Hugging Face model directory has one next to its "
        "weights: check the path."
    )


def no_weights(directory: Path) -> ExportError:
    """Returns the error of a directory without weights."""
    return ExportError(
        f"{directory} has no weights: this exporter reads {SINGLE} or {PICKLED}, or {INDEX} or "
        f"{PICKLED_INDEX} with its shards, or torchtune's {TUNED}, or Meta's "
        "consolidated.*.pth with params.json."
    )
