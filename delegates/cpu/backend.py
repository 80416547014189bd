"""One delegate call of the CPU delegate: an op list and packed weights."""

from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from torch.export import ExportedProgram

from delegates.op_list.payload import delegate_call


class ThimbleCpuBackend(BackendDetails):
    """Its name is the id under which the runtime registers itself."""

    @staticmethod
    def preprocess(
        edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> PreprocessResult:
        """Returns the op list, its named data, and the nodes of each debug id.

        Raises:
            DelegateError: no format can store the numbers of a weight.
        """
        return delegate_call(edge_program, compile_specs).result()
