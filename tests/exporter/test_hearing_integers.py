"""What models that hear are made of once their weights are integers."""

from pathlib import Path

import pytest
from support import hearing_models as models

from exporter.hearing.pipeline import load, open_whisper
from exporter.hearing.quantize import quantize
from exporter.hearing.scheme import hearing_scheme
from exporter.models.whisper import Whisper
from quant.scheme import Scheme
from quant.weight_type import INT8

pytest.importorskip("transformers")


def test_what_a_step_reads_is_in_groups(tmp_path: Path) -> None:
    models.write_whisper(tmp_path)
    model = load(open_whisper(tmp_path))
    quantize(model, hearing_scheme(Scheme("rtn8")), None, None)
    integers = {n: m.weight_type for n, m in model.named_modules() if hasattr(m, "weight_type")}
    assert integers["decoder.embed_tokens"] == Whisper.STEP_TYPE
    for name, type in integers.items():
        by_steps = name.startswith("decoder.") and "encoder_attn.k" not in name
        by_steps &= "encoder_attn.v" not in name
        assert type == (Whisper.STEP_TYPE if by_steps else INT8), name
