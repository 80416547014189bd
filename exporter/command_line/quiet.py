"""Silences known harmless messages of dependencies one by one; all others are shown."""

import logging
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from exporter.command_line.streams import messages_to

_LOG_NOISE = {
    # Optional CUDA kernels of torchao, missing in a CPU build of torch.
    "torchao": r"Failed to load .*_C\w*\.",
    # torchao registers enums in a way that torch 2.13 calls deprecated.
    "torch.utils._pytree": r"is an Enum subclass and is now natively supported",
    # An error that it raises too, which becomes our own sentence.
    "torch._subclasses.fake_tensor": r"failed while attempting to run meta",
    # Of a branch by the data, which our own sentence names.
    "torch.fx.experimental.symbolic_shapes": r"^Unable to find user code corresponding to",
    # We use ExecuTorch's shorter path on purpose: it decomposes the program once.
    "executorch.backends.xnnpack.partition.xnnpack_partitioner": r"DEPRECATION WARNING",
    # Versions newer than tested; Apple's own parts, missing elsewhere; float16 states and int32
    # tokens, as intended; equal sizes with two names.
    "coremltools": r"^(scikit-learn|Torch) version|^Failed to load _ML|only supports fp16 states"
    r"|^Saving value type of int64|^Recklessly broadcast",
    "executorch.backends.apple.coreml.partition.coreml_partitioner": r"^CoreMLPartitioner::"
    r"|will take over torch mutable buffer",
    "executorch.backends.apple.coreml.compiler.coreml_preprocess": r"^Edge program"
    r"|was exported with CoreML specification version",
    # What it took and what not; our own report shows this.
    "executorch.backends.mlx": r"^MLX( Partitioner)?: |^=+$|^ +",
    "executorch.backends.arm._passes.cast_int64_pass": r"^Casting buffer",
}
_WARNING_NOISE = (
    # Raised inside torch by its own replaying of the captured graph's size checks.
    r"_check_is_size will be removed",
    # ExecuTorch reports for every KV cache that it starts empty, as it should.
    r"Mutation on a buffer in the model is detected",
    r".*`isinstance\(treespec, LeafSpec\)` is deprecated",
    r".*is not a known type; assuming it is a constant",
    # Layers of LSTMs, GRUs and RNNs keep their weights in a list, too.
    r"The tensor attributes? self\..*_flat_weights",
    # Caused inside torch and coremltools.
    r"Raw SymInt value",
    r"Input, '.*', of the source model, has been renamed",
)
# ExecuTorch's C++ logs how it counts the processor's cores; Arm's reference model is newer than the
# version of TOSA that ExecuTorch writes.
_NATIVE_NOISE = re.compile(
    rb"^\[(cpuinfo_utils|threadpool)\.cpp:\d+\] |^WARNING: Different TOSA spec in flatbuffer"
)


def silence_known_noise() -> None:
    """Filters the known lines out of Python's logging and warnings, in the complete process."""
    for name, pattern in _LOG_NOISE.items():
        logging.getLogger(name).addFilter(_without(re.compile(pattern)))
    for message in _WARNING_NOISE:
        warnings.filterwarnings("ignore", message=message)


@contextmanager
def silence_native_noise() -> Iterator[TextIO]:
    """Filters the known lines out of what C++ code writes to standard error within the block.

    The remaining lines are written at the end. Provides the unfiltered standard error, for
    immediate output.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as caught, messages_to(kept) as unfiltered:
        os.dup2(caught.fileno(), 2)
        try:
            yield unfiltered if sys.stderr is sys.__stderr__ else sys.stderr
        finally:
            sys.stderr.flush()
            unfiltered.flush()
            os.dup2(kept, 2)
            caught.seek(0)
            for line in caught:
                if not _NATIVE_NOISE.match(line):
                    with suppress(OSError):
                        os.write(2, line)


def _without(pattern: re.Pattern[str]) -> logging.Filter:
    class Filter(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            return not pattern.search(record.getMessage())

    return Filter()
