"""The notebook, run from its first cell to its last."""

import base64
import os
import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from support.recorded_runs import etrecord_of, record
from support.slow_line import SLOW, record_slow_line

pytestmark = pytest.mark.check
ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "devtools" / "inspector.ipynb"
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(autouse=True)
def kernels_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its kernel finds our packages, draws into the notebook and leaves no files elsewhere."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    monkeypatch.delenv("MPLBACKEND", raising=False)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))


def run(directory: Path) -> list[Any]:
    """The notebook's cells after a run in the directory; a cell that fails raises."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    resources = {"metadata": {"path": str(directory)}}
    client = NotebookClient(
        notebook, timeout=200, startup_timeout=200, kernel_name="python3", resources=resources
    )
    client.execute()
    cells: list[Any] = notebook.cells
    return cells


def printed(cell: Any) -> str:
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")


def drawn(cell: Any) -> list[bytes]:
    return [
        base64.b64decode(output.data["image/png"])
        for output in cell.outputs
        if output.output_type == "display_data" and "image/png" in output.data
    ]


def shown_code(cell: Any) -> str:
    return "".join(
        output.data["text/plain"] + output.data.get("text/html", "")
        for output in cell.outputs
        if output.output_type == "display_data"
    )


def test_it_keeps_what_it_shows() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    cells = notebook.cells
    assert "The :mod:`json` module" in printed(cells[2])
    assert sum(len(drawn(cell)) for cell in cells if cell.cell_type == "code") == 4
    texts = [output.get("text", "") for cell in cells for output in cell.get("outputs", [])]
    assert not [text for text in texts if str(Path.home()) in text or "/tmp/" in text]
    assert not any(
        output.output_type == "error" or output.get("name") == "stderr"
        for cell in cells
        for output in cell.get("outputs", [])
    )


def test_from_the_model_to_its_slow_line(
    embedded_cpu_pte: Path, cpp_build: Path, tmp_path: Path
) -> None:
    """It runs the model itself; every event has a line; all four plots are drawn."""
    (tmp_path / "model.pte").symlink_to(embedded_cpu_pte)
    (tmp_path / "model.etrecord").symlink_to(etrecord_of(embedded_cpu_pte))
    (tmp_path / "devtools").mkdir()
    cells = run(tmp_path / "devtools")  # Jupyter's folder is the notebook's
    assert "The :mod:`json` module" in printed(cells[2]) and (tmp_path / "run.etdp").is_file()
    assert "48 calls on ThimbleCpuBackend" in printed(cells[3])
    assert "100.0% of the delegates' time has a line" in printed(cells[3])
    images = [image for cell in cells if cell.cell_type == "code" for image in drawn(cell)]
    assert len(images) == 4
    assert all(image.startswith(PNG) and len(image) > 4000 for image in images)
    assert "exporter/models/" in printed(cells[5])
    assert not any(output.get("name") == "stderr" for cell in cells[1:] for output in cell.outputs)


def test_one_call_is_enough(embedded_cpu_pte: Path, cpp_build: Path, tmp_path: Path) -> None:
    """A recording that has a prefill and no decoding."""
    record(cpp_build, embedded_cpu_pte, tmp_path / "run.etdp", tokens=1)
    (tmp_path / "model.etrecord").symlink_to(etrecord_of(embedded_cpu_pte))
    cells = run(tmp_path)
    assert "1 calls on" in printed(cells[3])
    assert len([image for cell in cells[4:9] for image in drawn(cell)]) == 4


def test_slow_line_comes_first(tmp_path: Path) -> None:
    etdump, etrecord = record_slow_line(tmp_path)
    shutil.copy(etrecord, tmp_path / "model.etrecord")
    assert etdump == tmp_path / "run.etdp"
    cells = run(tmp_path)
    assert SLOW in printed(cells[5]).splitlines()[0]
    assert SLOW in printed(cells[9])
    shown = shown_code(cells[9])
    assert "forward" in shown and "self" in shown and "torch.tanh" in re.sub("<[^>]*>", "", shown)
