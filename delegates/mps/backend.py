"""The CPU delegate's op list and packed weights under the Metal delegate's name."""

from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from torch.export import ExportedProgram

from delegates.mps.kernels import check_kernels
from delegates.op_list.payload import delegate_call


class ThimbleMetalBackend(BackendDetails):
    """Its name is the id under which the runtime registers itself."""

    @staticmethod
    def preprocess(
        edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> PreprocessResult:
        """Returns the CPU delegate's result, byte for byte.

        Raises:
            DelegateError: no format can store the numbers of a weight, or Metal does not support an
                op.
        """
        call = delegate_call(edge_program, compile_specs)
        check_kernels(call)
        return call.result()
