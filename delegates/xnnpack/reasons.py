"""Why XNNPACK's partitioner leaves a node alone: it tells a logger that nobody listens to."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGER = "executorch.backends.xnnpack.partition.config"


@contextmanager
def noted_reasons() -> Iterator[dict[str, str]]:
    """Fills the dictionary it gives with the reasons, by the nodes' names, while it is open."""
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
