"""Fixtures that several test files share: models, exported once, and runs of them."""

import json
import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir._serialize._program import deserialize_pte_binary
from safetensors.torch import load_file, save_file
from support.chats import export_chat_model
from support.cpu_models import LowerArchitecture, LoweredModel, lower_architecture
from support.exported import Exported, Quiet, export_for_tests
from support.once import ROOT, kept_layers, made_once
from support.recorded_runs import Recorded, etrecord_of, record

from exporter.hearing.pipeline import HearingOptions, export_hearing
from exporter.module.options import ModuleOptions
from exporter.module.pipeline import export_module
from exporter.module.source_name import SourceName
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.scheme import Scheme

SHARED_DATA = ROOT.parent / "shared" / "data"
WHOLE_MODEL = "model.pickle"  # transformers' own, beside its checkpoint


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real weights, tokenizers and text that lie beside the repository, not inside it."""
    if not SHARED_DATA.is_dir():
        pytest.skip("no ../shared/data beside the repository: real weights and texts are absent")
    return SHARED_DATA


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Commands started by tests keep quantized layers here and not where the user does."""
    os.environ["THIMBLE_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Models of a few thousand parameters: waking a second thread costs more than it computes,
    a hundred times more on a machine that is busy elsewhere. ExecuTorch's pool is set here once:
    XNNPACK keeps its address, and another size is another pool."""
    from executorch.extension.pybindings import portable_lib

    torch.set_num_threads(1)
    portable_lib._unsafe_reset_threadpool(1)


@pytest.fixture(scope="session")
def stories_export(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """stories260K in float32, through the whole pipeline."""
    return _export_stories(shared_data, tmp_path_factory, Scheme("none"))


@pytest.fixture(scope="session")
def stories_gptq_export(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """stories260K in 4 bits by GPTQ, with an ETRecord beside it."""
    return _export_stories(shared_data, tmp_path_factory, Scheme("gptq4"))


@pytest.fixture(scope="session")
def stories_pte(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The float32 `.pte` of stories260K; read it, do not write it."""
    return _stories_file(shared_data, tmp_path_factory, Scheme("none"))


@pytest.fixture(scope="session")
def stories_gptq_pte(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The 4-bit `.pte` of stories260K, its ETRecord beside it; read it, do not write it."""
    return _stories_file(shared_data, tmp_path_factory, Scheme("gptq4"))


@pytest.fixture(scope="session")
def one_layer_checkpoint(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first layer of stories260K as a checkpoint of its own: quick to export."""
    source, directory = shared_data / "stories260K", tmp_path_factory.mktemp("one_layer")
    config = json.loads((source / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 1}))
    tensors = load_file(source / "model.safetensors")
    kept = {
        name: tensor
        for name, tensor in tensors.items()
        if ".layers." not in name or ".layers.0." in name
    }
    save_file(kept, directory / "model.safetensors")
    (directory / "tokenizer.model").symlink_to(source / "tokenizer.model")
    return directory


@pytest.fixture(scope="session")
def calibration_text(shared_data: Path) -> Path:
    """Stories like those that stories260K was trained on."""
    return shared_data / "text" / "tinystories_calibration.txt"


@pytest.fixture(scope="session")
def embedded_pte(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The 4-bit `.pte` of the model that ships with the package, its ETRecord beside it; read it,
    do not write it."""

    def make(directory: Path) -> Path:
        out = directory / "model.pte"
        options = ExportOptions(model="llama3", out=out, etrecord=out.with_suffix(".etrecord"))
        return export_model(replace(options, delegate="xnnpack"), Quiet()).out

    return made_once(tmp_path_factory, "embedded", make)


@pytest.fixture(scope="session")
def stories_cpu_pte(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """stories260K in 4 to 8 bits for the CPU delegate, its ETRecord beside it; do not write it."""
    return _export_cpu(shared_data, tmp_path_factory, Scheme("gptq4"))


@pytest.fixture(scope="session")
def chat_pte(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """stories260K with a chat template, for the CPU delegate; read it, do not write it."""
    source = shared_data / "stories260K"
    return made_once(tmp_path_factory, "chat", lambda path: export_chat_model(source, path))


@pytest.fixture(scope="session")
def stories_op_list(stories_cpu_pte: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The CPU delegate's op list out of stories_cpu_pte, a file of its own."""
    program = deserialize_pte_binary(stories_cpu_pte.read_bytes()).program
    (delegate,) = program.execution_plan[0].delegates
    blob = tmp_path_factory.mktemp("op_list") / "program.bin"
    blob.write_bytes(bytes(program.backend_delegate_data[delegate.processed.index].data))
    return blob


@pytest.fixture(scope="session")
def stories_cpu_float_pte(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """stories260K in float32 for the CPU delegate; read it, do not write it."""
    return _export_cpu(shared_data, tmp_path_factory, Scheme("none"))


@pytest.fixture(scope="session")
def embedded_cpu_pte(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model that ships with the package in 4 bits for the CPU delegate, its ETRecord beside it;
    do not write it."""

    def make(directory: Path) -> Path:
        out = directory / "model.pte"
        options = ExportOptions(
            model="llama3",
            out=out,
            scheme=Scheme("rtn4"),
            delegate="cpu",
            etrecord=out.with_suffix(".etrecord"),
        )
        return export_model(options, Quiet()).out

    return made_once(tmp_path_factory, "embedded_cpu", make)


@pytest.fixture(scope="session")
def traps_pte(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """support/module_traps.py's module for XNNPACK, its ETRecord beside it; do not write it."""

    def make(directory: Path) -> Path:
        out = directory / "traps.pte"
        source = SourceName(ROOT / "tests" / "support" / "module_traps.py", "make")
        options = ModuleOptions(source, out, etrecord=out.with_suffix(".etrecord"))
        return export_module(options, Quiet()).out

    return made_once(tmp_path_factory, "traps", make)


@pytest.fixture(scope="session")
def cpp_build() -> Path:
    """The directory of the C++ runner and its tests, built where out of date."""
    from runtime.build import build

    return build().directory


@pytest.fixture(scope="session")
def lowered_architecture(tmp_path_factory: pytest.TempPathFactory) -> LowerArchitecture:
    """Random models of an architecture's name for the CPU delegate, each lowered once; read the
    files, do not write them."""

    @cache
    def lower(name: str, scheme: Scheme) -> LoweredModel:
        return lower_architecture(name, scheme, tmp_path_factory.mktemp(name))

    return lower


@pytest.fixture(scope="session")
def recorded(
    request: pytest.FixtureRequest, cpp_build: Path, tmp_path_factory: pytest.TempPathFactory
) -> Recorded:
    """Runs of the models above, each recorded once; read the files, do not write them."""
    directory = tmp_path_factory.mktemp("recorded")

    @cache
    def run(name: str) -> tuple[Path, Path]:
        pte = request.getfixturevalue(name)
        return record(cpp_build, pte, directory / f"{name}.etdp"), etrecord_of(pte)

    return run


def _export_cpu(
    shared_data: Path, tmp_path_factory: pytest.TempPathFactory, scheme: Scheme
) -> Path:
    def make(directory: Path) -> Path:
        out = directory / "stories.pte"
        options = ExportOptions(
            model=str(shared_data / "stories260K"),
            out=out,
            etrecord=out.with_suffix(".etrecord"),
            scheme=scheme,
            mixed=scheme.name == "gptq4",
            calibration=shared_data / "text" / "tinystories_calibration.txt",
            calibration_tokens=16 * 256,
            delegate="cpu",
        )
        return export_model(options, Quiet()).out

    return made_once(tmp_path_factory, f"stories_cpu_{scheme.name}", make)


def _export_stories(
    shared_data: Path, tmp_path_factory: pytest.TempPathFactory, scheme: Scheme
) -> Exported:
    """Its file is that of _stories_file(), where this process is the first to need it."""
    made: list[Exported] = []

    def make(directory: Path) -> Path:
        made.append(export_for_tests(_stories_options(shared_data, directory, scheme)))
        return made[0].path

    made_once(tmp_path_factory, f"stories_{scheme.name}", make)
    if not made:
        make(tmp_path_factory.mktemp(scheme.name))
    return made[0]


def _stories_file(
    shared_data: Path, tmp_path_factory: pytest.TempPathFactory, scheme: Scheme
) -> Path:
    """The same file, without the forms that it went through."""

    def make(directory: Path) -> Path:
        return export_model(_stories_options(shared_data, directory, scheme), Quiet()).out

    return made_once(tmp_path_factory, f"stories_{scheme.name}", make)


def _stories_options(shared_data: Path, directory: Path, scheme: Scheme) -> ExportOptions:
    return ExportOptions(
        model=str(shared_data / "stories260K"),
        out=directory / "stories.pte",
        scheme=scheme,
        calibration=shared_data / "text" / "tinystories_calibration.txt",
        calibration_tokens=16 * 256,
        delegate="xnnpack",
        cache=kept_layers(),
        etrecord=directory / "stories.etrecord" if scheme.name != "none" else None,
    )


@pytest.fixture(scope="session")
def hearing_model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A small random model that hears and writes times, and transformers' model of it."""
    pytest.importorskip("transformers")
    from support.hearing_models import write_whisper

    def make(directory: Path) -> Path:
        torch.save(write_whisper(directory, timed=True), directory / WHOLE_MODEL)
        options = HearingOptions(directory, directory / "w.pte", Scheme("none"))
        return export_hearing(options, Quiet()).out

    pte = made_once(tmp_path_factory, "hearing", make)
    return pte, torch.load(pte.parent / WHOLE_MODEL, weights_only=False)


@pytest.fixture(scope="session")
def streaming_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random model that hears while sound arrives."""
    pytest.importorskip("transformers")
    from support.moonshine_streaming_models import write_moonshine_streaming

    directory = tmp_path_factory.mktemp("moonshine_streaming")
    write_moonshine_streaming(directory)
    return export_hearing(
        HearingOptions(directory, directory / "m.pte", Scheme("none")), Quiet()
    ).out


@pytest.fixture(scope="session")
def seeing_model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Path]:
    """A small random SmolVLM, transformers' model of it, and its checkpoint."""
    pytest.importorskip("transformers")
    from support.seeing_models import write_seeing

    def make(directory: Path) -> Path:
        torch.save(write_seeing(directory), directory / WHOLE_MODEL)
        out, scheme = directory / "m.pte", Scheme("none")
        options = ExportOptions(str(directory), out=out, scheme=scheme, max_context_len=1024)
        return export_model(options, Quiet()).out

    pte = made_once(tmp_path_factory, "seeing", make)
    return pte, torch.load(pte.parent / WHOLE_MODEL, weights_only=False), pte.parent
