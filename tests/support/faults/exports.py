"""Exports into a folder (forked.py); run by tests/exporter/test_faults.py."""

from pathlib import Path

import torch
from forked import run_forked

from exporter.errors import ExportError
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.scheme import Scheme


def export(folder: Path) -> str:
    options = ExportOptions("llama3", folder / "model.pte", scheme=Scheme("rtn4"))
    try:
        export_model(options)
    except ExportError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    torch.set_num_threads(1)
    run_forked(export)
