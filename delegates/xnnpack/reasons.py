"""Collects the reasons why XNNPACK's partitioner leaves nodes, from its logger."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGER = "executorch.backends.xnnpack.partition.config"


@contextmanager
def noted_reasons() -> Iterator[dict[str, str]]:
    """Provides a dictionary that is filled with the reasons, by the nodes' names, in the block."""
    reasons: dict[str, str] = {}

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            node = getattr(record.msg, "node", None)  # of ExecuTorch's WhyNoPartition
            if node is not None:
                reasons[node.name] = str(getattr(record.msg, "reason", "")).rstrip(".")

    logger = logging.getLogger(_LOGGER)
    level, propagate, listener = logger.level, logger.propagate, Listener()
    logger.addHandler(listener)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        yield reasons
    finally:
        logger.removeHandler(listener)
        logger.setLevel(level)
        logger.propagate = propagate
