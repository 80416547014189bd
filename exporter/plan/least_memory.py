"""What every export takes, whatever the model. Importing this module is fast."""

from exporter.errors import ExportError
from quant.machine.memory_size import show_size

_PROGRAMS = 700_000_000  # PyTorch, ExecuTorch, Numba, graphs: the memory of a tiny model's export
_SLACK = 200_000_000
LEAST_MEMORY = _PROGRAMS + _SLACK


def check_max_memory(limit: int) -> None:
    """Raises ExportError if no model at all is exported within as many bytes."""
    if limit < LEAST_MEMORY:
        raise ExportError(
            f"--max-memory is {show_size(limit)}, but PyTorch and ExecuTorch alone need about "
            f"{show_size(LEAST_MEMORY)}; allow that much and more for the model, such as 4GB."
        )
