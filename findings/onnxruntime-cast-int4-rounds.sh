#!/usr/bin/env bash
# onnxruntime 1.32.0 and onnx 1.23.2's reference evaluator: Cast of float to INT4 and to INT8.
#
# Expected: Cast drops the fraction, whatever the width, and QuantizeLinear is what rounds.
# Seen: onnxruntime drops it for INT8, but rounds for INT4 and UINT4: halves go away from zero, while
# QuantizeLinear sends them to the even neighbour. Then it wraps around: 7.5, whose whole part
# fits, becomes -8. The reference drops the fraction for both. A graph that clips to -8..7 and casts is
# right in one and wrong in the other: round before the Cast, or use QuantizeLinear.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 onnx==1.23.2 onnxruntime==1.32.0
cat > "$folder/expected" <<'TEXT'
of [0.5, 0.6, 2.5, 2.7, 7.4, 7.5, -0.5, -2.5]
Cast to INT8: reference [0, 0, 2, 2, 7, 7, 0, -2], onnxruntime [0, 0, 2, 2, 7, 7, 0, -2]
Cast to INT4: reference [0, 0, 2, 2, 7, 7, 0, -2], onnxruntime [1, 1, 3, 3, 7, -8, -1, -3]
QuantizeLinear to INT4: reference [0, 1, 2, 3, 7, 7, 0, -2], onnxruntime [0, 1, 2, 3, 7, 7, 0, -2]
TEXT
"$folder/venv/bin/python" - > "$folder/seen" <<'PYTHON'
import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

VALUES = np.array([0.5, 0.6, 2.5, 2.7, 7.4, 7.5, -0.5, -2.5], np.float32)
print("of", [round(value, 1) for value in VALUES.tolist()])
for name, node in (
    ("Cast to INT8", helper.make_node("Cast", ["x"], ["whole"], to=TensorProto.INT8)),
    ("Cast to INT4", helper.make_node("Cast", ["x"], ["whole"], to=TensorProto.INT4)),
    (
        "QuantizeLinear to INT4",
        helper.make_node("QuantizeLinear", ["x", "one"], ["whole"], output_dtype=TensorProto.INT4),
    ),
):
    back = helper.make_node("Cast", ["whole"], ["y"], to=TensorProto.INT32)
    graph = helper.make_graph(
        [node, back],
        "cast",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["count"])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, ["count"])],
        [numpy_helper.from_array(np.float32(1), "one")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    reference = ReferenceEvaluator(model).run(None, {"x": VALUES})[0]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    seen = session.run(None, {"x": VALUES})[0]
    print(f"{name}: reference {reference.tolist()}, onnxruntime {seen.tolist()}")
PYTHON
diff "$folder/expected" "$folder/seen"
