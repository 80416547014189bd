"""From the captured program to a `.pte` with one TOSA graph in it."""

import importlib.util
from collections.abc import Mapping

from torch.export import ExportedProgram

from delegates.errors import DelegateError
from delegates.limits import Limits
from delegates.passes.attention import gather_rope, rewrite_attention
from delegates.passes.graph import complete_values, drop_checks
from delegates.passes.narrow_integers import mask_by_distance, narrow_integers, write_by_choice
from delegates.passes.weights import weights_not_copied
from delegates.report import delegation_report
from delegates.storage import FLOAT_BITS, FileSizes
from delegates.to_executorch import Lowered, finish

# The wheel of tosa-tools requires older versions of numpy and flatbuffers than necessary.
INSTALL = "pip install ml_dtypes && pip install --no-deps tosa-tools==2026.5.0"


def _missing() -> str | None:
    if importlib.util.find_spec("tosa_serializer") and importlib.util.find_spec("ml_dtypes"):
        return None
    return f"Arm's tosa-tools is not installed, and the tosa delegate needs it: {INSTALL}"


LIMITS = Limits(
    name="tosa",
    runs_on="Arm's NPUs and GPUs, after their own compilers",
    weight_bits=(FLOAT_BITS,),
    dynamic=False,
    missing=_missing,
    checks=lambda: importlib.util.find_spec("tosa_reference_model") is not None,
    sizes=FileSizes(layer_bytes=1 << 16),
)
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

    Args:
        program: the captured program, which is rewritten in place.
        constant_methods: values that a runtime reads by method name.
        named_data: additional blobs for the file.
        with_etrecord: keep the graphs that ExecuTorch's Inspector needs.

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
