"""The options of a module's export."""

from dataclasses import dataclass
from pathlib import Path

from exporter.module.source_name import SourceName

DEFAULT_MODULE_DELEGATE = "xnnpack"


@dataclass(frozen=True)
class ModuleOptions:
    """
    Attributes:
        source: the user's file and function.
        out: the `.pte` to write.
        quant: one of QUANTS.
        delegate: a name in delegates.DELEGATES, or several in order of preference.
        etrecord: file for the graphs that the profiler reads.
        group_size: numbers of a row that share a scale with --quant int4.
    """

    source: SourceName
    out: Path
    quant: str = "none"
    delegate: str = DEFAULT_MODULE_DELEGATE
    etrecord: Path | None = None
    group_size: int = 32
