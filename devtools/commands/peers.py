"""Peers that run in a Python where their packages are: NAME or NAME:PYTHON of --against."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from devtools.bench.engine import Engine, ServedEngine
from devtools.bench.gguf_model import write_gguf
from devtools.bench.random_weights import write_checkpoint
from devtools.bench.shape import Model
from devtools.commands.random_models import made, shape_of
from devtools.errors import BadRequest, DevtoolsError

OPENVINO, ONNXRUNTIME, IK_LLAMA = "openvino", "onnxruntime-genai", "ik-llama"
# By name: the modules that it needs, and the packages that have them.
PEERS = {
    OPENVINO: ("openvino, nncf", "openvino and nncf"),
    ONNXRUNTIME: (
        "onnxruntime_genai, onnxruntime, onnx_ir, torch, transformers",
        "onnxruntime-genai, onnxruntime, onnx-ir, torch and transformers",
    ),
    IK_LLAMA: ("ik_llama_cpp", "ik-llama-cpp-python"),
}
_SCRIPTS = Path(__file__).resolve().parents[1] / "peers"


@dataclass(frozen=True)
class PeerOptions:
    """How peers' models are made.

    Attributes:
        cache: where models that were made stay.
        gguf_types, gguf: of ik_llama.cpp's models, and files that it runs instead.
    """

    cache: Path
    gguf_types: tuple[str, ...]
    gguf: tuple[Path, ...]


def is_peer(name: str) -> bool:
    return name.partition(":")[0] in PEERS


def make_peers(
    name: str, model: Model, options: PeerOptions, note: Callable[[str], None]
) -> list[Engine]:
    """The engines that a peer's name stands for, with models of the shape of ours.

    Raises:
        BadRequest: the Python lacks a package, or no such model can be made.
        DevtoolsError: the peer's own tool failed.
    """
    peer, _, interpreter = name.partition(":")
    python = Path(interpreter or sys.executable)
    _check_packages(peer, python)
    if peer == IK_LLAMA:
        return _ik_llama(python, model, options, note)
    facts: dict[str, object] = {**shape_of(model).to_dict()}
    make: Callable[[Path], None]
    if peer == OPENVINO:
        facts["head_bits"] = model.head_bits
        make, file = partial(_build_openvino, python, facts=facts), "openvino.xml"
    else:
        facts["context"] = model.max_context_len
        make, file = partial(_build_onnxruntime, python, model=model), "model.onnx"
    path = made(options.cache, file, facts, make, note)
    command: list[str | Path] = [python, _SCRIPTS / f"{peer.partition('-')[0]}_serve.py", path]
    context = None if peer == OPENVINO else model.max_context_len
    return [ServedEngine(f"{peer} int4", path, command, context)]


def _check_packages(peer: str, python: Path) -> None:
    modules, packages = PEERS[peer]
    advice = f"as --against {peer}:PYTHON"
    try:
        result = subprocess.run(
            [python, "-c", f"import {modules}"], capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise BadRequest(
            f"{python} cannot be started ({error.strerror}); give a Python that has {packages}, "
            f"{advice}."
        ) from None
    if result.returncode != 0:
        raise BadRequest(
            f"{python} lacks what {peer} needs; install {packages} there, or give a Python that "
            f"has them, {advice}."
        )


def _build_openvino(python: Path, out: Path, facts: Mapping[str, object]) -> None:
    """Writes out and, beside it, its weights under the name that OpenVINO looks for."""
    with tempfile.TemporaryDirectory(dir=out.parent) as directory:
        shape, xml = Path(directory) / "shape.json", Path(directory) / "openvino.xml"
        shape.write_text(json.dumps(facts), encoding="utf-8")
        _run([python, _SCRIPTS / "openvino_build.py", shape, xml], OPENVINO)
        xml.with_suffix(".bin").replace(out.parent / "openvino.bin")
        xml.replace(out)


def _build_onnxruntime(python: Path, out: Path, model: Model) -> None:
    """Writes out by the peer's own builder, and beside it the files that it looks for."""
    with tempfile.TemporaryDirectory(dir=out.parent) as directory:
        floats, result, rest = (Path(directory) / part for part in ("floats", "result", "rest"))
        floats.mkdir()
        write_checkpoint(floats, shape_of(model), model.max_context_len)
        kind = {"tokenizer_class": "PreTrainedTokenizerFast"}  # which the builder asks for
        (floats / "tokenizer_config.json").write_text(json.dumps(kind), encoding="utf-8")
        command: list[str | Path] = [python, "-m", "onnxruntime_genai.models.builder"]
        command += ["-i", floats, "-o", result, "-c", rest, "-p", "int4", "-e", "cpu"]
        _run(command, ONNXRUNTIME)
        for path in result.iterdir():
            path.replace(out if path.name == "model.onnx" else out.parent / path.name)


def _ik_llama(
    python: Path, model: Model, options: PeerOptions, note: Callable[[str], None]
) -> list[Engine]:
    files = [(path.stem, path) for path in options.gguf]
    for kind in () if files else options.gguf_types:
        facts = {**shape_of(model).to_dict(), "made_by": str(python.absolute())}
        find = "import ik_llama_cpp as ik; print(ik.find_quantize_bin())"
        quantizer = Path(_run([python, "-c", find], IK_LLAMA).strip())
        make = partial(write_gguf, shape=shape_of(model), kind=kind, quantizer=quantizer)
        files.append((kind, made(options.cache, f"{kind}.gguf", facts, make, note)))
    context = model.max_context_len
    serve: list[str | Path] = [python, _SCRIPTS / "ik_llama_serve.py"]
    return [
        ServedEngine(f"{IK_LLAMA} {kind}", path, [*serve, path, str(context)], context)
        for kind, path in files
    ]


def _run(command: list[str | Path], peer: str) -> str:
    """What a peer's tool prints."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        output = (result.stderr or result.stdout).strip().splitlines()
        raise DevtoolsError(
            f"A model of this shape for {peer}: {output[-1] if output else 'its tool failed'}"
        )
    return result.stdout
