"""Shapes that may be smaller than they were lowered with."""

from collections.abc import Collection

from executorch.exir.delegate import executorch_call_delegate
from executorch.exir.pass_base import PassBase, PassResult
from executorch.exir.passes.sym_shape_eval_pass import ConstraintBasedSymShapeEvalPass
from executorch.exir.schema import TensorShapeDynamism
from executorch.exir.tensor import TensorSpec
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves


class BoundedShapes(PassBase):
    """Makes the shapes of some inputs, and of what delegates return, the largest that they have.

    Args:
        names: of the inputs.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def call(self, graph_module: GraphModule) -> PassResult:
        ConstraintBasedSymShapeEvalPass()(graph_module)
        for node in graph_module.graph.nodes:
            if node.name in self._names or _is_returned(node):
                for spec in tree_leaves(node.meta.get("spec")):
                    if isinstance(spec, TensorSpec):
                        spec.shape_dynamism = TensorShapeDynamism.DYNAMIC_BOUND
        return PassResult(graph_module, True)


def _is_returned(node: Node) -> bool:
    """Whether it is what a delegate's call returns, or one of several tensors that it does."""
    nodes = [node, *node.all_input_nodes[:1]] if node.op == "call_function" else []
    return any(one.target is executorch_call_delegate for one in nodes)
