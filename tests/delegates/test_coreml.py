"""Core ML: the program in the file computes what the model computes, over its state, in float16."""

import copy
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from coremltools.proto import MIL_pb2
from sentencepiece import SentencePieceProcessor
from support.core_ml_evaluator import CoreMLEvaluator
from support.core_ml_program import DTYPES, CoreMLProgram, read_core_ml
from support.cpu_models import prepare
from support.decoder_specs import SMALL, varied
from support.expert_models import CLAMPED, EXPERTS, expert_model
from support.exported import Quiet, feed
from support.small_models import PLAIN_RTN8, float_twin, quantized_model, random_model, round_rope
from torch import Tensor

import exporter.capture.program
from delegates import DelegateError, Lowered
from delegates.coreml import lower
from exporter.capture.program import capture
from exporter.file.pte import read_report
from exporter.models.decoder import CausalLM
from exporter.models.spec import DecoderSpec, ExpertsSpec
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.modules import QuantizedLinear
from quant.scheme import Scheme
from quant.weight_type import INT8

pytestmark = pytest.mark.check

CONTEXT = 40
LENGTHS = [11, 1, 1, 2, 1, 9, 1]  # prefill, decode, and a longer call in the middle
WIDE = dict.fromkeys(("model.layers.0.self_attn.qkv_proj", "model.layers.0.mlp.down_proj"), INT8)

# Whose numbers float16 has.
EXACT = replace(CLAMPED, expert=replace(CLAMPED.expert, activation="silu", limit=0.25))

# In float32 the program and the model differ by the order of additions alone.
WIDE_TOLERANCE = 1e-5
# In float16 both round every result by up to 2^-11. The program has about half as many roundings
# again as the model run by PyTorch in float16 (its norms take five steps more), and neither's
# errors know of the other's: their ratio stays below 2 where nothing overflows.
TIMES_HALF = 2.0


@dataclass(frozen=True)
class Case:
    """One lowered model: eager, in the file, and ExecuTorch's view of it."""

    model: CausalLM
    program: CoreMLProgram
    lowered: Lowered
    size: int


def core_ml(model: CausalLM, directory: Path, context: int = CONTEXT, seq_len: int = 16) -> Case:
    lowered = lower(capture(model, context, seq_len), {}, {}, with_etrecord=False)
    path = directory / "model.pte"
    with open(path, "wb") as file:
        lowered.program.write_to_file(file)
    program = read_core_ml(path, directory / "core_ml")
    return Case(model, program, lowered, path.stat().st_size)


@pytest.fixture(scope="module")
def int4(tmp_path_factory: pytest.TempPathFactory) -> Case:
    model = quantized_model(random_model(varied(SMALL, num_hidden_layers=2)), Scheme("rtn4"))
    return core_ml(model, tmp_path_factory.mktemp("int4"))


def run(evaluator: CoreMLEvaluator, tokens: Tensor, input_pos: Tensor) -> Tensor:
    (logits,) = evaluator(
        tokens=tokens.numpy().astype(np.int32), input_pos=input_pos.numpy().astype(np.int32)
    )
    return torch.from_numpy(logits.astype(np.float32))


def program_logits(
    program: CoreMLProgram, tokens: Tensor, lengths: list[int], wide: bool
) -> Tensor:
    evaluator = CoreMLEvaluator(program, wide)
    return feed(lambda *inputs: run(evaluator, *inputs), tokens, lengths)


def some_tokens(config: DecoderSpec, lengths: list[int]) -> Tensor:
    generator = torch.Generator().manual_seed(7)
    return torch.randint(config.vocab_size, (sum(lengths),), generator=generator)


def error(want: Tensor, have: Tensor) -> float:
    """Root-mean-square difference over the logits' deviation."""
    spread = (want - want.mean(-1, keepdim=True)).norm()
    return ((want - have).norm() / spread).item()


def require_agreement(
    case: Case, tokens: Tensor, lengths: list[int], context: int = CONTEXT
) -> None:
    """The program against the model with the same weights and float activations: exactly its
    arithmetic in float32, and in float16 no further off than float16 is."""
    exact = float_twin(case.model, torch.float16)
    exact.setup_cache(context)
    round_rope(exact, torch.float16)
    wide = program_logits(case.program, tokens, lengths, wide=True)
    assert error(feed(exact, tokens, lengths), wide) < WIDE_TOLERANCE

    model = float_twin(case.model)
    model.setup_cache(context)
    want = feed(model, tokens, lengths)
    half = float_twin(case.model).half()
    half.setup_cache(context)
    half.half()
    allowed = TIMES_HALF * error(want, feed(half, tokens, lengths).float())
    assert error(want, program_logits(case.program, tokens, lengths, wide=False)) < allowed


def test_prefill_and_decode_agree_through_the_state(int4: Case) -> None:
    require_agreement(int4, some_tokens(int4.model.config, LENGTHS), LENGTHS)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("experts", "scheme"),
    [(EXACT, Scheme("rtn4")), (EXPERTS, Scheme("none"))],
    ids=["clamped", "normalized"],
)
def test_mixtures_of_experts(experts: ExpertsSpec, scheme: Scheme, tmp_path: Path) -> None:
    method = None if scheme.name == "none" else replace(scheme.choice, rotation="none")
    model = prepare(expert_model(experts, 2), replace(scheme, method=method))
    case = core_ml(model, tmp_path)
    assert (case.lowered.report.calls, case.lowered.report.left) == (1, {})
    require_agreement(case, some_tokens(model.config, LENGTHS), LENGTHS)


def test_the_state_holds_the_keys_and_values(int4: Case) -> None:
    tokens = some_tokens(int4.model.config, LENGTHS)
    model = float_twin(int4.model, torch.float16)
    model.setup_cache(CONTEXT)
    round_rope(model, torch.float16)
    feed(model, tokens, LENGTHS)
    evaluator = CoreMLEvaluator(int4.program, wide=True)
    feed(lambda *inputs: run(evaluator, *inputs), tokens, LENGTHS)
    assert len(evaluator.states) == 2 * len(model.model.layers)
    for index, layer in enumerate(model.model.layers):
        for name in ("k_cache", "v_cache"):
            state = evaluator.states[f"model_layers_{index}_self_attn_{name}"]
            want = getattr(layer.self_attn, name).transpose(1, 2).numpy()
            np.testing.assert_allclose(state, want, rtol=1e-4, atol=1e-4)


def test_the_last_position_of_the_context_and_the_longest_call(int4: Case) -> None:
    lengths = [16, 16, 7, 1]
    assert sum(lengths) == CONTEXT
    require_agreement(int4, some_tokens(int4.model.config, lengths), lengths)


def test_the_complete_decoder_is_one_call(int4: Case) -> None:
    report = int4.lowered.report
    assert report.calls == 1 and report.left == {}
    assert report.linears == report.linears_delegated == 2 * 7 + 1
    spec = int4.program.spec
    assert spec.specificationVersion == 9  # iOS 18, macOS 15
    assert [tensor.name for tensor in spec.description.input] == ["tokens", "input_pos"]
    (lengths,) = spec.description.input[0].type.multiArrayType.shapeRange.sizeRanges[1:]
    assert (lengths.lowerBound, lengths.upperBound) == (1, 16)


def blobs(program: CoreMLProgram) -> dict[int, tuple[int, int]]:
    """Offset in the weights' file -> (type, numbers) of every constant that is stored there."""
    values = [op.attributes["val"] for op in program.operations if op.type == "const"]
    for op in program.operations:
        values += [argument.value for bound in op.inputs.values() for argument in bound.arguments]
    found = {}
    for value in values:
        if value.HasField("blobFileValue"):
            tensor = value.type.tensorType
            count = np.prod([size.constant.size for size in tensor.dimensions], dtype=int)
            found[value.blobFileValue.offset] = (tensor.dataType, int(count))
    return found


def weight_types(program: CoreMLProgram) -> list[int]:
    """The stored type of every linear's weight, in order."""
    stored = {}
    for op in program.operations:
        if op.type == "const":
            stored[op.outputs[0].name] = op.attributes["val"]
        elif op.type == "constexpr_blockwise_shift_scale":
            stored[op.outputs[0].name] = op.inputs["data"].arguments[0].value
    weights = [
        op.inputs["weight"].arguments[0].name for op in program.operations if op.type == "linear"
    ]
    return [stored[name].type.tensorType.dataType for name in weights]


def test_four_bits_stay_four_bits(int4: Case) -> None:
    assert weight_types(int4.program) == [MIL_pb2.DataType.INT4] * 14 + [MIL_pb2.DataType.INT8]
    modules = int4.model.model.layers.modules()
    layers = [item.values.numel() for item in modules if isinstance(item, QuantizedLinear)]
    table = int4.model.model.embed_tokens.values.numel()
    numbers = dict.fromkeys(DTYPES, 0)
    for kind, count in blobs(int4.program).values():
        numbers[kind] += count
    assert numbers[MIL_pb2.DataType.INT4] == sum(layers)
    assert numbers[MIL_pb2.DataType.INT8] == table  # embedding and head share it
    scales = sum(layers) // 32 + 2 * SMALL.vocab_size
    rope, norms = 2 * CONTEXT * SMALL.layers[0].mixer.head_dim, 5 * SMALL.hidden_size
    inner = SMALL.layers[0].feed_forward.intermediate_size
    biases = 2 * (3 * SMALL.hidden_size + 64 + 2 * inner) + SMALL.vocab_size
    assert numbers[MIL_pb2.DataType.FLOAT16] <= scales + rope + norms + biases
    # A constant starts at a multiple of 64 bytes, after 64 bytes that describe it.
    size = sum(layers) // 2 + table + 2 * numbers[MIL_pb2.DataType.FLOAT16]
    assert int4.program.weights.stat().st_size <= size + 128 * (len(blobs(int4.program)) + 1)


@pytest.mark.parametrize(
    ("scheme", "changes", "stored"),
    [
        pytest.param(PLAIN_RTN8, {}, [MIL_pb2.DataType.INT8] * 8, marks=pytest.mark.soak),
        pytest.param(
            Scheme("rtn4", 64, 4),
            {"tie_word_embeddings": False, "qk_norm": "heads", "num_key_value_heads": 4},
            [MIL_pb2.DataType.INT4] * 8,
            marks=pytest.mark.soak,
        ),
        pytest.param(
            Scheme("rtn4", 32, 4),
            {"hidden_size": 72, "head_dim": 18},
            [MIL_pb2.DataType.INT4] * 8,
        ),
        pytest.param(
            Scheme("rtn4").with_types(WIDE),
            {},
            [MIL_pb2.DataType.INT8] * 3 + [MIL_pb2.DataType.INT4] * 3 + [MIL_pb2.DataType.INT8] * 2,
            marks=pytest.mark.soak,
        ),
    ],
)
def test_every_scheme_agrees(
    scheme: Scheme, changes: dict[str, object], stored: list[int], tmp_path: Path
) -> None:
    model = random_model(varied(SMALL, **changes))
    case = core_ml(quantized_model(model, scheme), tmp_path)
    assert weight_types(case.program) == stored
    matrices = {kind for kind, count in blobs(case.program).values() if count >= 1024}
    assert matrices == set(stored)  # the embedding too
    require_agreement(case, some_tokens(model.config, LENGTHS), LENGTHS)


def test_one_token_at_a_time_is_a_program_of_fixed_shapes(tmp_path: Path) -> None:
    model = quantized_model(random_model(SMALL), Scheme("rtn4"))
    case = core_ml(model, tmp_path, seq_len=1)
    sizes = [
        size.WhichOneof("dimension")
        for op in case.program.operations
        for output in op.outputs
        for size in output.type.tensorType.dimensions
    ]
    assert set(sizes) == {"constant"}
    require_agreement(case, some_tokens(model.config, [1] * 6), [1] * 6)


def test_hidden_states_whose_squares_float16_does_not_hold(tmp_path: Path) -> None:
    """Real models have such states; a norm as it is written makes zeros of them in float16."""
    config = varied(SMALL, tie_word_embeddings=False, attention_bias=True)
    model = random_model(config)
    model.model.embed_tokens.weight.mul_(20000)
    lengths = [9, 1, 1]
    tokens = some_tokens(model.config, lengths)
    assert model.embed(tokens).abs().max() > 1000
    case = core_ml(quantized_model(model, Scheme("none")), tmp_path)
    assert weight_types(case.program) == [MIL_pb2.DataType.FLOAT16] * 8
    twin = float_twin(model)
    twin.setup_cache(CONTEXT)
    have = program_logits(case.program, tokens, lengths, wide=False)
    assert error(feed(twin, tokens, lengths), have) < 0.01
    half = float_twin(model).half()
    half.setup_cache(CONTEXT)
    half.half()
    assert not error(feed(twin, tokens, lengths), feed(half, tokens, lengths).float()) < 0.1


def test_every_operation_has_its_handle_and_every_node_its_line(int4: Case) -> None:
    for op in int4.program.operations:
        if op.type not in ("const", "read_state", "write_state"):  # state is no node's work
            assert int4.program.handles[f"{op.outputs[0].name}:{op.type}"], op.type
    graph_module = int4.lowered.program.exported_program().graph_module
    (partition,) = (module for _, module in graph_module.named_children())
    handles = {handle for handles in int4.program.handles.values() for handle in handles}
    nodes = [node for node in partition.original_module.graph.nodes if node.op == "call_function"]
    assert len(nodes) > 150
    lines = {"softmax": "cached_attention(", "rsqrt": "torch.rsqrt(", "linear": "_proj("}
    for node in nodes:
        if "sym_size" not in str(node.target):  # torch's own, of the shape
            assert "exporter/models/" in node.meta["stack_trace"], node
        assert node.meta["nn_module_stack"], node
        (name,) = {name for name in lines if f"aten.{name}." in str(node.target)} or {None}
        trace = node.meta["stack_trace"]
        assert name is None or lines[name] in trace or "return self.head(" in trace
    known = {node.meta["debug_handle"] for node in nodes}
    assert handles <= known and len(handles) > len(known) / 2


def refusal(program: torch.export.ExportedProgram) -> str:
    with pytest.raises(DelegateError) as refused:
        lower(program, {}, {}, with_etrecord=False)
    return str(refused.value)


def test_a_weight_beyond_float16() -> None:
    model = random_model(SMALL)
    model.model.layers[0].mlp.up_proj.weight[3, 5] = -1e5
    assert refusal(capture(model, CONTEXT, 16)) == (
        "model.layers.0.mlp.up_proj.weight contains -100000; Core ML computes in float16, whose "
        "largest number is 65504: export with --delegate cpu or xnnpack."
    )


class Acosh(CausalLM):
    """Ends in an operator that Core ML does not have."""

    def head(self, hidden: Tensor) -> Tensor:
        return super().head(hidden).acosh()


@pytest.mark.soak
def test_an_operator_that_core_ml_does_not_have() -> None:
    model = Acosh(SMALL).requires_grad_(False)
    sentence = refusal(capture(model, CONTEXT, 16))
    assert sentence.startswith("Core ML does not take acosh (exporter/models/decoder.py:")


def test_a_refusal_of_the_converter_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import coremltools

    def refuse(**_: object) -> None:
        raise NotImplementedError("no such thing\nand forty lines of graph")

    monkeypatch.setattr(coremltools, "convert", refuse)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert refusal(capture(random_model(SMALL), CONTEXT, 16)) == (
        "Core ML's converter refused the program: no such thing; export with another --quant, "
        "--max-seq-len or --delegate."
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.soak
def test_stories_through_the_complete_pipeline(shared_data: Path, tmp_path: Path) -> None:
    kept: list[CausalLM] = []
    real_capture = exporter.capture.program.capture

    def keeping_capture(model: CausalLM, *lengths: int) -> torch.export.ExportedProgram:
        kept.append(copy.deepcopy(model))
        return real_capture(model, *lengths)

    options = ExportOptions(
        model=str(shared_data / "stories260K"),
        out=tmp_path / "stories.pte",
        scheme=Scheme("rtn4"),
        calibration=shared_data / "text" / "tinystories_calibration.txt",
        delegate="coreml",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporter.capture.program, "capture", keeping_capture)
        result = export_model(options, Quiet())
    assert result.delegation.calls == 1 and result.delegation.left == {}
    assert result.agreement is None
    assert read_report(result.out)["agreement"] == {"checked": "not run here"}
    program = read_core_ml(result.out, tmp_path / "core_ml")
    assert weight_types(program) == [MIL_pb2.DataType.INT4] * 35 + [MIL_pb2.DataType.INT8]
    tokenizer = SentencePieceProcessor(
        model_file=str(shared_data / "stories260K" / "tokenizer.model")
    )
    text = "Once upon a time, there was a little girl named Lily. She loved to play outside."
    tokens = torch.tensor([1, *tokenizer.encode(text)])
    lengths = [len(tokens) - 6, 1, 1, 2, 1, 1]
    require_agreement(Case(kept[0], program, None, 0), tokens, lengths, context=512)
