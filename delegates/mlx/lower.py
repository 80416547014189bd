"""From the captured program to a `.pte` whose decoder is one MLX program."""

from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor
from torch.export import ExportedProgram

from delegates.limits_of.mlx import LIMITS
from delegates.mlx.rewrite import rewrite_attention
from delegates.mlx.schema import import_mlx
from delegates.passes.graph import complete_values, drop_checks
from delegates.passes.quantized import expand_embeddings, expand_linears, from_table
from delegates.passes.weights import weights_not_copied
from delegates.report import check_whole, delegation_report
from delegates.to_executorch import Lowered, finish


def lower(
    program: ExportedProgram,
    constant_methods: Mapping[str, object],
    named_data: Mapping[str, bytes],
    with_etrecord: bool,
) -> Lowered:
    """Lowers the captured program to one MLX program, with its caches.

    It computes in float32 with only the weights quantized, in MLX's own packing: unsigned integers
    in words of 32 bits and a scale for each group; the bias, -2^(bits-1) scales, is not stored.

    Raises:
        DelegateError: its schema cannot be generated, or MLX does not take the complete program.
    """
    LIMITS.check_program(program)
    import_mlx()
    drop_checks(program)
    expand_linears(program, round_activations=False)
    expand_embeddings(program, from_table)
    rewrite_attention(program)
    if with_etrecord:
        complete_values(program)

    from executorch.backends.mlx import MLXBackend, MLXPartitioner
    from executorch.backends.mlx.passes import get_default_passes
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    with weights_not_copied(MLXBackend):
        edge = to_edge_transform_and_lower(
            program,
            transform_passes=get_default_passes(),
            partitioner=[MLXPartitioner()],
            constant_methods=dict(constant_methods),
            compile_config=EdgeCompileConfig(
                _check_ir_validity=False,  # the verifier knows neither mlx:: nor torchao's
                _skip_dim_order=True,
            ),
            generate_etrecord=with_etrecord,
        )
    check_whole("MLX", edge.exported_program())
    report = delegation_report("mlx", edge.exported_program().graph_module)
    return finish(edge, report, named_data, with_etrecord)


def load(path: Path) -> Callable[[Tensor, Tensor], Tensor] | None:
    """Returns None: MLX runs only on Apple's systems."""
    return None
