"""The key of a cached layer covers all source that decides what is in it, in any folder."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from support.small_models import ModelWeights
from support.unusual_models import Shape, UnusualModel, unusual_model

import quant.cache.key
from quant.cache.key import layer_keys
from quant.scheme import Scheme

WEIGHTS = ModelWeights(unusual_model(Shape()))


@pytest.fixture(autouse=True)
def source_is_read_anew() -> Iterator[None]:
    quant.cache.key._code.cache_clear()
    yield
    quant.cache.key._code.cache_clear()


def keys(kind: type[UnusualModel] = UnusualModel) -> list[str]:
    """Of every layer, with the source as it is now."""
    quant.cache.key._code.cache_clear()
    with torch.device("meta"):
        model = kind(Shape())
    return layer_keys(model, Scheme("rtn4"), WEIGHTS, None)[0]


FILES = {
    "__init__.py": "",
    "model.py": (
        "from support.unusual_models import UnusualModel\n\n\nclass Decoder(UnusualModel): ...\n"
    ),
    "norm.py": "",
    "blocks/mixer.py": "x = 1\n",
}


@pytest.fixture
def package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Path, type[UnusualModel]]]:
    """A package that defines a model in several files, and the model."""
    folder = tmp_path / "decoders_of_a_test"
    (folder / "blocks").mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder, importlib.import_module(f"{folder.name}.model").Decoder
    for name in (folder.name, f"{folder.name}.model"):
        del sys.modules[name]


def change_another(folder: Path) -> None:
    (folder / "norm.py").write_text("eps = 1e-5\n", encoding="utf-8")


def change_below(folder: Path) -> None:
    (folder / "blocks" / "mixer.py").write_text("x = 2\n", encoding="utf-8")


def add_below(folder: Path) -> None:
    (folder / "blocks" / "rope.py").write_text("", encoding="utf-8")


def rename_below(folder: Path) -> None:
    (folder / "blocks").rename(folder / "bricks")


CHANGES = pytest.mark.parametrize("change", [change_another, change_below, add_below, rename_below])


@CHANGES
def test_all_files_of_the_models_package_are_in_the_key(
    change: Callable[[Path], None], package: tuple[Path, type[UnusualModel]]
) -> None:
    folder, kind = package
    before = keys(kind)
    assert keys(kind) == before
    change(folder)
    assert not set(keys(kind)) & set(before)


@CHANGES
def test_all_folders_of_quant_are_in_the_key(
    change: Callable[[Path], None],
    package: tuple[Path, type[UnusualModel]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = package[0]
    monkeypatch.setattr(quant, "__file__", str(folder / "__init__.py"))
    before = keys()
    assert keys() == before
    change(folder)
    assert not set(keys()) & set(before)


def test_what_is_no_source_is_not_in_the_key(package: tuple[Path, type[UnusualModel]]) -> None:
    folder, kind = package
    before = keys(kind)
    (folder / "blocks" / "__pycache__").mkdir()
    (folder / "blocks" / "__pycache__" / "mixer.cpython-311.pyc").write_bytes(b"compiled")
    (folder / "notes.md").write_text("a note", encoding="utf-8")
    assert keys(kind) == before
