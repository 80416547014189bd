"""ExecuTorch's MLX package, completed: its wheel has the schema of the program that MLX runs and
the generator of the code that writes it, and lacks the code.

The generator writes beside itself, so it is copied to a directory of the user's cache, run there
with the wheel's own flatc, and that directory put in front of the package's search path. Nothing
in the installation is touched.
"""

import contextlib
import hashlib
import importlib.util
import io
import os
import shutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType

from delegates.errors import DelegateError
from delegates.limits_of.mlx import PACKAGE

_FLATC = "executorch.data.bin"


def import_mlx() -> ModuleType:
    """Returns the package; generates the parts that the wheel lacks on first use.

    Raises:
        DelegateError: the generator failed, or its output cannot be written.
    """
    if PACKAGE in sys.modules:
        return sys.modules[PACKAGE]
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None and spec.origin is not None and spec.loader is not None  # not missing()
    assert spec.submodule_search_locations is not None
    source = Path(spec.origin).parent / "serialization"
    if not (source / "mlx_graph_schema.py").is_file():
        spec.submodule_search_locations.insert(0, str(generated(source, _cache())))
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    try:
        spec.loader.exec_module(package)
    except BaseException:
        del sys.modules[PACKAGE]
        raise
    return package


def generated(source: Path, cache: Path) -> Path:
    """Returns the directory under `cache` with the complete `serialization` package.

    Its name is a digest of `source`, so that the result of an earlier run is reused.

    Raises:
        DelegateError: as import_mlx().
    """
    files = sorted(path for path in source.iterdir() if path.is_file())
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    finished = cache / f"mlx-{digest[:16]}"
    if finished.is_dir():
        return finished
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as directory:
            work = Path(directory) / "mlx"
            (work / "serialization").mkdir(parents=True)
            for path in files:
                shutil.copy(path, work / "serialization")
            _generate(work)
            # If another process was faster, its directory, with the same files, is used.
            with contextlib.suppress(OSError):
                work.rename(finished)
    except OSError as error:
        raise DelegateError(
            f"The mlx delegate cannot generate its schema's code in {cache} ({error.strerror}); "
            "set THIMBLE_CACHE to a writable directory."
        ) from error
    return finished


def _generate(work: Path) -> None:
    """Runs the steps of generate.py that make Python, without those that make C++."""
    spec = importlib.util.spec_from_file_location(
        "thimble_mlx_generate", work / "serialization" / "generate.py"
    )
    assert spec is not None and spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = generator  # its dataclasses look themselves up there
    (work / "runtime").mkdir()
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            spec.loader.exec_module(generator)
            schema = generator.parse_fbs(generator.SCHEMA_FBS)
            ran = generator.run_flatc(str(_flatc()))
            generator._fixup_flatc_imports()
        outputs = {
            generator.GENERATED_SCHEMA_PY: generator.generate_python_schema,
            generator.GENERATED_SERIALIZERS: generator.generate_python_serializers,
            generator.GENERATED_INSPECTOR: generator.generate_inspector,
        }
        for path, generate in outputs.items():
            Path(path).write_text(generate(schema))
    finally:
        del sys.modules[spec.name]
    shutil.rmtree(work / "runtime")
    if not ran:
        lines = [line for line in output.getvalue().splitlines() if line.startswith("flatc")]
        raise DelegateError(
            f"The mlx delegate's schema cannot be generated: {'; '.join(lines)}; install "
            "executorch==1.5.1 again, or choose another --delegate."
        )


def _flatc() -> Path:
    package = importlib.util.find_spec(_FLATC)
    places = list(package.submodule_search_locations or []) if package is not None else []
    return Path(places[0] if places else ".") / "flatc"


def _cache() -> Path:
    chosen = os.environ.get("THIMBLE_CACHE")
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(chosen) if chosen else user / "thimble"
