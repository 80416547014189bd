"""Other engines with a model of the same shape and random weights, which is kept for the next
run."""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from devtools.bench.engine import Engine, ServedEngine
from devtools.bench.gguf_model import write_gguf
from devtools.bench.llama_bench import LlamaBench
from devtools.bench.random_weights import LETTERS, write_checkpoint
from devtools.bench.server import Ended, Server
from devtools.bench.shape import Model, describe_model
from devtools.commands.peers import PEERS, PeerOptions, is_peer, make_peers
from devtools.commands.random_models import made, shape_of
from devtools.errors import BadRequest, DevtoolsError

DELEGATES = ("cpu", "xnnpack")  # what build/bench runs
RECORDING = "recording"  # our own model, its calls recorded all the time
ADAPTER = "adapter:"  # begins the name of one that the file keeps: our own model with it
BENCH = "bench"  # the name of our own program: another build of it
GGUF_TYPES = ("Q4_0", "Q4_K_M")
_REFUSES = f"{BENCH}: "  # begins its sentence on what it cannot do


@dataclass(frozen=True)
class RivalOptions:
    """How rivals are found and made.

    Attributes:
        bench: build/bench.
        kv_cache, huge_pages: what our own model is run with.
        models: how they are made, and those that llama-bench runs.
    """

    bench: Path
    kv_cache: str
    huge_pages: bool
    models: PeerOptions


def default_cache() -> Path:
    """thimble/bench in the user's cache directory (XDG Base Directory Specification)."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "thimble" / "bench"


def check_rival(name: str, makes_gguf: bool) -> None:
    """
    Args:
        makes_gguf: llama-bench needs a model to be made for it.

    Raises:
        BadRequest: no rival has that name, and no program or model lies at that path.
    """
    if name in (*DELEGATES, RECORDING) or name.startswith(ADAPTER) or is_peer(name):
        return
    path = Path(name)
    if path.suffix == ".pte" and path.is_file():
        return
    if not (path.is_file() and os.access(path, os.X_OK)):
        raise BadRequest(
            f"--against {name} is not known; give {', '.join((*DELEGATES, *PEERS))}, {RECORDING}, "
            f"{ADAPTER}NAME, a .pte file, or the path of llama-bench or of another build's {BENCH}."
        )
    if path.name == BENCH or not makes_gguf:
        return
    if not quantizer_beside(path).is_file():
        raise BadRequest(
            f"{quantizer_beside(path)} is missing but needed to make the model for {path.name}; "
            "build both into the same directory."
        )


def quantizer_beside(llama_bench: Path) -> Path:
    return llama_bench.with_name("llama-quantize")


def open_model(
    name: str,
    path: Path,
    bench: Path,
    kv_cache: str = "default",
    huge_pages: bool = False,
    etdump: Path | None = None,
    adapter: str | None = None,
) -> tuple[Engine, Model]:
    """A `.pte` as an engine, and what it says of itself.

    Args:
        kv_cache, huge_pages: what our own delegate is told; others do not listen.
        etdump: where each measurement leaves its profile; None: nothing is recorded.
        adapter: the one of the file's that it runs with; None: none.

    Raises:
        BadRequest: the program refuses it.
        DevtoolsError: it cannot be loaded, or does not say its shape.
    """
    command: list[str | Path] = [bench, path, "-p", "", "--kv-cache", kv_cache]
    if huge_pages:
        command.append("--huge-pages")
    if etdump is not None:
        command += ["--etdump", etdump]
    if adapter is not None:
        command += ["--adapter", adapter]
    command.append("--threads")
    try:
        with Server([*command, "1"], str(path)) as server:
            model = describe_model(server.greeting, str(path), adapter)
    except Ended as error:
        if not error.said.startswith(_REFUSES):
            raise
        raise BadRequest(f"{error.said.removeprefix(_REFUSES)}.") from None
    return ServedEngine(name, path, command, model.max_context_len), model


def make_rivals(
    name: str, path: Path, ours: Model, options: RivalOptions, note: Callable[[str], None]
) -> list[tuple[Engine, Model | None]]:
    """The engines that a value of --against stands for, with models of the shape of ours.

    Args:
        path: the file of ours.

    Raises:
        BadRequest: a package or a program is missing.
        DevtoolsError: a model cannot be made.
    """
    if name in DELEGATES:
        pte = made(
            options.models.cache,
            f"{name}.pte",
            {**_facts(ours), "context": ours.max_context_len, "call": ours.max_seq_len},
            lambda out: _export(out, name, ours),
            note,
        )
        return [open_model(name, pte, options.bench)]
    if is_peer(name):
        return [(engine, None) for engine in make_peers(name, ours, options.models, note)]
    same = partial(open_model, path=path, kv_cache=options.kv_cache, huge_pages=options.huge_pages)
    if name == RECORDING:
        profile = options.models.cache / "recording.etdp"
        profile.parent.mkdir(parents=True, exist_ok=True)
        return [same(name, bench=options.bench, etdump=profile)]
    if name.startswith(ADAPTER):
        return [same(name, bench=options.bench, adapter=name.removeprefix(ADAPTER))]
    rival = Path(name)
    if rival.suffix == ".pte":
        return [open_model(rival.stem, rival, options.bench)]
    if rival.name == BENCH:
        return [same(f"build {_tree(rival.absolute().parent)}", bench=rival)]
    return [(engine, None) for engine in _llama(rival, ours, options, note)]


def _tree(build: Path) -> str:
    """What tells a build directory from others: of `before/build` the tree that it belongs to."""
    return build.parent.name if build.name == "build" else build.name


def _facts(model: Model) -> dict[str, object]:
    """What a rival's model depends on."""
    return {
        **shape_of(model).to_dict(),
        "floats": model.scheme == "none",
        "bits": 8 if model.scheme == "rtn8" else 4,
        "group_size": model.group_size,
        "head_bits": model.head_bits,
    }


def _export(out: Path, delegate: str, model: Model) -> None:
    """Exports a random checkpoint for a delegate, as ours was; the weights are rounded, which
    takes no time to run."""
    from exporter.command_line.quiet import silence_known_noise, silence_native_noise

    silence_known_noise()  # before the imports that make it
    from delegates import DelegateError, get_delegate
    from exporter.errors import ExportError
    from exporter.options import ExportOptions
    from exporter.pipeline import export_model
    from quant.errors import QuantError
    from quant.scheme import Scheme

    if shape_of(model).vocab_size < LETTERS:
        raise DevtoolsError(
            f"The vocabulary of {shape_of(model).vocab_size} is too small for a random model; at "
            f"least {LETTERS} tokens are needed."
        )
    scheme = "rtn4" if model.scheme == "gptq4" else model.scheme
    stores = get_delegate(delegate).LIMITS.weight_bits
    head_bits = model.head_bits if model.head_bits in stores else 8
    with tempfile.TemporaryDirectory(dir=out.parent) as directory, silence_native_noise():
        write_checkpoint(Path(directory), shape_of(model), model.max_context_len)
        try:
            export_model(
                ExportOptions(
                    model=directory,
                    out=out,
                    scheme=Scheme(scheme, model.group_size, head_bits),
                    max_context_len=model.max_context_len,
                    max_seq_len=model.max_seq_len,
                    delegate=delegate,
                ),
                _Silent(),
            )
        except (ExportError, QuantError, DelegateError) as error:
            raise DevtoolsError(f"A {delegate} model of this shape: {error}") from None


class _Silent:
    """An export's listener that has nothing to say."""

    def note(self, text: str) -> None:
        pass

    def stage(self, name: str) -> None:
        pass

    def progress(self, progress: object) -> None:
        pass


def _llama(
    program: Path, model: Model, options: RivalOptions, note: Callable[[str], None]
) -> list[Engine]:
    if options.models.gguf:
        return [
            LlamaBench(f"{program.name} {path.stem}", program, path) for path in options.models.gguf
        ]
    facts = {**shape_of(model).to_dict(), "made_by": str(program.resolve())}
    engines: list[Engine] = []
    for kind in options.models.gguf_types:
        make = partial(
            write_gguf, shape=shape_of(model), kind=kind, quantizer=quantizer_beside(program)
        )
        path = made(options.models.cache, f"{kind}.gguf", facts, make, note)
        engines.append(LlamaBench(f"{program.name} {kind}", program, path))
    return engines
