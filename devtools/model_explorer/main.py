"""The line and the time of every node of an ETRecord's graph, as Model Explorer's node data.

Model Explorer imports this module by its name. The graph itself is that of the adapter for
ETRecords in executorch-extension-model-explorer.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from model_explorer import (
    GetConfigEditorsResult,
    NodeDataProvider,
    NodeDataProviderFilter,
    NodeDataProviderMetadata,
    NodeDataProviderResult,
    config_editor,
)
from model_explorer.node_data_builder import GradientItem, GraphNodeData, NodeDataResult

from devtools.errors import BadRequest
from devtools.format_numbers import counted
from devtools.profile.attribution import Attributions, is_product, only_moves
from devtools.profile.etrecord import Node, Record, read_etrecord
from devtools.profile.load import load_profile
from devtools.profile.profile_types import Call, Event

_ETDUMP = "etdump"
_NANOSECONDS_PER_MILLISECOND = 1e6
# Of the name that ExecuTorch gives a node whose operator its process does not know.
_UNREGISTERED = "executorch_exir_dialects_edge_ops_"
_COLOURS = [GradientItem(stop=0, bgColor="#ffffff"), GradientItem(stop=1, bgColor="#f4a582")]


class LinesAndTimes(NodeDataProvider):
    """Each node's line; with a recorded run also its milliseconds in the median call."""

    metadata = NodeDataProviderMetadata(
        id="thimble_lines_and_times",
        name="Thimble: lines and times",
        description="The line of Python of each node, and the time that a recorded run spent there",
        icon="speed",
        filter=NodeDataProviderFilter(modelFileExts=["etrecord"], adapterIds=["etrecord_adapter"]),
    )

    def get_config_editors(self, provider_id: str) -> GetConfigEditorsResult:
        run = config_editor.FileConfigEditor(
            id=_ETDUMP,
            label="A recorded run",
            description="What the runner's --etdump wrote; without it, lines alone are shown",
            fileExts=["etdp", "etdump"],
            required=False,
        )
        return GetConfigEditorsResult(configEditors=[run])

    def run(
        self,
        provider_id: str,
        model_path: str,
        graph_id: str,
        config_values: dict[str, Any],
        graph: Any,
    ) -> NodeDataProviderResult:
        """
        Args:
            model_path: of the ETRecord.
            graph_id: the method that is shown.
            config_values: the path of the ETDump, if one was given.
            graph: what the adapter made of that method.
        """
        etdump = config_values.get(_ETDUMP)
        ids = {
            node.id.removeprefix(_UNREGISTERED).removesuffix("_"): node.id for node in graph.nodes
        }
        try:
            found = node_data(Path(model_path), graph_id, ids, Path(etdump) if etdump else None)
        except BadRequest as error:
            return NodeDataProviderResult(error=str(error))
        return NodeDataProviderResult(result=found)


def node_data(
    etrecord: Path, method: str, ids: Mapping[str, str], etdump: Path | None
) -> list[GraphNodeData]:
    """The lines of a method's nodes, then their times: one column for each group of calls.

    Args:
        ids: of nodes in the graph that is shown, by their names in the record.

    Raises:
        BadRequest: as of load_profile.
    """
    record = read_etrecord(etrecord, method)
    attributions = Attributions(record)
    stacks = {node.name: attributions.stack_of(node) for node in record.nodes}
    lines = {name: stack[-1].location for name, stack in stacks.items() if stack}
    columns = [GraphNodeData(name="line", results=_by_id(lines, ids))]
    if etdump is not None:
        for name, calls in load_profile(etdump, etrecord).groups.items():
            if calls[0].method == method:
                times = _times(calls, record, attributions)
                title = f"{name}: ms, median of {counted(len(calls), 'call')}"
                column = GraphNodeData(name=title, results=_by_id(times, ids), gradient=_COLOURS)
                columns.append(column)
    return columns


def _by_id(values: Mapping[str, str | float], ids: Mapping[str, str]) -> dict[str, NodeDataResult]:
    return {ids[name]: NodeDataResult(value) for name, value in values.items() if name in ids}


def _times(calls: Sequence[Call], record: Record, attributions: Attributions) -> dict[str, float]:
    """Milliseconds by node. An event that computes several nodes is one node's for each of its
    lines, so that the sum of a call's is the time of its events with a line."""
    nodes = {node.name: node for node in record.nodes}
    per_node: dict[str, list[int]] = {}
    for index, call in enumerate(calls):
        for portion in call.portions:
            if portion.lines:
                node = _main([nodes[name] for name in portion.nodes], portion, attributions)
                per_node.setdefault(node.name, [0] * len(calls))[index] += portion.duration_ns
    return {name: median(times) / _NANOSECONDS_PER_MILLISECOND for name, times in per_node.items()}


def _main(nodes: list[Node], portion: Event, attributions: Attributions) -> Node:
    """Of an event's nodes the one that has a portion's time: a product of its line and module, if
    there is one."""

    def rank(node: Node) -> tuple[bool, bool, bool]:
        own = attributions.stack_of(node) == portion.stack
        of_portion = own and node.module_path == portion.module_path
        return not of_portion, not is_product(node), only_moves(node)

    return min(nodes, key=rank)
