"""A delegate of another package: ExecuTorch's portable kernels, no hardware's library at all."""

from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor
from torch.export import ExportedProgram

from delegates import DelegationReport, Limits, Lowered
from delegates.executorch_runtime import open_program
from delegates.passes.attention import positions_of, rewrite_attention
from delegates.to_executorch import finish

LIMITS = Limits(
    name="portable",
    runs_on="anything with a C++ compiler",
    weight_bits=(32,),
    dynamic=True,
    missing=lambda: None,
    checks=lambda: True,
)


def lower(
    program: ExportedProgram,
    constant_methods: Mapping[str, object],
    named_data: Mapping[str, bytes],
    with_etrecord: bool,
) -> Lowered:
    from executorch.exir import EdgeCompileConfig, to_edge

    rewrite_attention(program, positions_of(program))
    edge = to_edge(
        program,
        constant_methods=dict(constant_methods),
        compile_config=EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True),
        generate_etrecord=with_etrecord,
    )
    report = DelegationReport("portable", calls=0, left={"linear": 8})
    return finish(edge, report, named_data, with_etrecord)


def load(path: Path) -> Callable[[Tensor, Tensor], Tensor]:
    return open_program(path)
