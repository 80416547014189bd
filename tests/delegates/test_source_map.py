"""The map from a program's instructions to their lines holds all methods of the program."""

import json
import zipfile
from pathlib import Path

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge
from torch import Tensor, nn
from torch.export import Dim, export

from delegates.passes.source_map import keep_view_handles
from devtools.errors import BadRequest
from devtools.profile.etrecord import read_etrecord


class Folded(nn.Module):
    """Reshapes to a shape that only a run knows."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x).view(-1, self.width).sigmoid()


def test_reshapes_of_every_method_keep_their_handles(tmp_path: Path) -> None:
    shapes = {"x": {0: Dim("rows", min=2, max=32)}}
    methods = {
        name: export(Folded(width), (torch.zeros(4, 12),), dynamic_shapes=shapes)
        for name, width in (("forward", 6), ("vision_encoder", 3))
    }
    config = EdgeCompileConfig(_check_ir_validity=False)
    program = to_edge(methods, compile_config=config, generate_etrecord=True).to_executorch()
    assert keep_view_handles(program) == 2
    record = tmp_path / "record.etrecord"
    program.get_etrecord().save(str(record))
    for method, plan in zip(methods, program.executorch_program.execution_plan, strict=True):
        assert plan.name == method
        found = read_etrecord(record, method)
        assert set(found.instructions) >= set(range(len(plan.chains[0].instructions)))
    with zipfile.ZipFile(record) as archive:
        assert json.loads(archive.read("debug_handle_map")).keys() == methods.keys()
    with pytest.raises(BadRequest, match="has no graph of the method text_decoder"):
        read_etrecord(record, "text_decoder")
