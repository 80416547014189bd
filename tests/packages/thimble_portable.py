"""A delegate of another package: ExecuTorch's portable kernels, no hardware's library at all."""

from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor
from torch.export import ExportedProgram

from delegates import DelegationReport, Limits, Lowered
from delegates.plain import positions_of, rewrite_attention

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
    for key, data in named_data.items():
        edge._named_data_store.add_named_data(key, data, alignment=16)
    finished = edge.to_executorch()
    report = DelegationReport("portable", calls=0, left={"linear": 8})
    return Lowered(finished, report, finished.get_etrecord() if with_etrecord else None)


def load(path: Path) -> Callable[[Tensor, Tensor], Tensor]:
    from executorch.extension.pybindings.portable_lib import _load_for_executorch

    module = _load_for_executorch(str(path))

    def step(tokens: Tensor, input_pos: Tensor) -> Tensor:
        return module.run_method("forward", (tokens, input_pos))[0]

    return step
