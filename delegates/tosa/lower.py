"""From the captured program to a `.pte` with one TOSA graph in it."""

from collections.abc import Mapping

from torch.export import ExportedProgram

from delegates.errors import DelegateError
from delegates.limits_of.tosa import LIMITS
from delegates.passes.attention import gather_rope, rewrite_attention
from delegates.passes.graph import complete_values, drop_checks
from delegates.passes.narrow_integers import mask_by_distance, narrow_integers, write_by_choice
from delegates.passes.weights import weights_not_copied
from delegates.report import delegation_report
from delegates.to_executorch import Lowered, finish

SPECIFICATION = "TOSA-1.0+FP"


def lower(
    program: ExportedProgram,
    constant_methods: Mapping[str, object],
    named_data: Mapping[str, bytes],
    with_etrecord: bool,
) -> Lowered:
    """Lowers the captured program to one TOSA graph in float32, with one token per call.

    The caches are inputs and outputs of every call; only the two casts of tokens and position to
    int32 stay outside.

    Raises:
        DelegateError: Arm's serializer is not installed, weights are not float, shapes are not
            fixed, or TOSA does not take the complete program.
    """
    LIMITS.check_program(program)
    drop_checks(program)
    positions = narrow_integers(program)
    gather_rope(program, positions)
    rewrite_attention(program, positions, mask_by_distance, write_by_choice)
    program.graph.eliminate_dead_code()
    if with_etrecord:
        complete_values(program)

    from executorch.backends.arm.tosa.backend import TOSABackend
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from executorch.backends.arm.tosa.partitioner import TOSAPartitioner
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    with weights_not_copied(TOSABackend):
        edge = to_edge_transform_and_lower(
            program,
            partitioner=[TOSAPartitioner(TosaCompileSpec(SPECIFICATION))],
            constant_methods=dict(constant_methods),
            compile_config=EdgeCompileConfig(_check_ir_validity=False),
            generate_etrecord=with_etrecord,
        )
    report = delegation_report("tosa", edge.exported_program().graph_module)
    outside = report.left.keys() - {"dim_order_ops::_to_dim_order_copy"}
    if report.calls != 1 or outside:
        raise DelegateError(
            f"TOSA takes the program in {report.calls} pieces, without "
            f"{', '.join(sorted(outside)) or 'nothing'}; the caches need it whole: export with "
            "another --delegate."
        )
    return finish(edge, report, named_data, with_etrecord)
