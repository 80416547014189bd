"""A file with settings of sampling, as a model's authors set them, and a chat template."""

import json
import shutil
from pathlib import Path

from support.chats import TEMPLATE
from support.exported import Quiet

from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.scheme import Scheme

GIVEN = {"do_sample": True, "temperature": 1.5, "top_k": 20, "top_p": 0.8, "min_p": 0.0}
STORED = {"temperature": 1.5, "top_k": 20, "top_p": 0.8, "repetition_penalty": 1.1}


def export_sampled(stories: Path, directory: Path) -> Path:
    """Exports a checkpoint with the settings of STORED; the file is in the directory."""
    model = shutil.copytree(stories, directory / "model")
    settings = {**GIVEN, "repetition_penalty": 1.1, "eos_token_id": 2}
    (model / "generation_config.json").write_text(json.dumps(settings))
    (model / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    options = ExportOptions(model=str(model), out=directory / "m.pte", scheme=Scheme("none"))
    return export_model(options, Quiet()).out
