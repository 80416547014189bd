"""Models of random weights that stay for the next run, each under what it depends on."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from devtools.bench.shape import Model, Shape
from devtools.errors import BadRequest
from devtools.files import replacing


def made(
    cache: Path,
    name: str,
    facts: Mapping[str, object],
    make: Callable[[Path], None],
    note: Callable[[str], None],
) -> Path:
    """The file of that name among the models with these facts; made where it is missing."""
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
    path = cache / key / name
    if path.is_file():
        return path
    note(f"making {path}, a model of this shape with random weights")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "facts.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
    except OSError as error:
        raise BadRequest(
            f"{cache} cannot be written ({error.strerror}); choose another place with --cache."
        ) from None
    with replacing(path) as temporary:
        make(temporary)
    return path


def shape_of(model: Model) -> Shape:
    """
    Raises:
        BadRequest: no model of random weights can be made like this one.
    """
    if model.shape is None:
        raise BadRequest(
            f"The layers of {model.name} are of several kinds or sizes, which no rival's model "
            "can have; give a .pte, or llama-bench with --gguf FILE."
        )
    return model.shape
