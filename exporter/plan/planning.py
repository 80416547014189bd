"""How an export is planned, before its model is quantized."""

from dataclasses import replace

from delegates import Limits, get_limits
from exporter.catalogue.find import find_checkpoint
from exporter.catalogue.seeing import is_seeing, require_seeing
from exporter.checkpoint import Checkpoint
from exporter.checkpoint.imatrix import read_importance
from exporter.checkpoint.sampling import ends_note, not_applied, read_sampling, sampling_note
from exporter.errors import ExportError
from exporter.listener import Listener
from exporter.module.window_scheme import DEFAULT_SCHEME, window_scheme
from exporter.options import ExportOptions
from exporter.plan.cache_type import cached_bytes
from exporter.plan.file_size import require_room, room_to_leave, size_note
from exporter.plan.kept_integers import keeping, require_keepable
from exporter.plan.lengths import check_lengths, context_note, default_context
from exporter.plan.memory import plan_memory
from exporter.plan.plan import Plan, empty_model
from exporter.plan.requirements import require_supported
from exporter.plan.rotary_notes import rotary_notes
from exporter.plan.widths import choose_default_widths, within_budget
from exporter.seeing.sight import Sight, open_sight, picture_note
from exporter.text.calibration import with_own_text
from exporter.text.prepare import NO_TEXT, prepare_text, with_pictures
from quant.cache.store import Cache, default_size
from quant.machine.ranks import ALONE, Ranks
from quant.machine.resources import Resources
from quant.scheme import Scheme, weighed


def plan_export(options: ExportOptions, listener: Listener) -> Plan:
    """Returns the plan of a file, for which its disk has room; raises as its steps do."""
    limits = get_limits(options.delegate)
    if _drops_rotation(limits, options.scheme):
        listener.note(
            f"{limits.name} cannot rotate the inputs of linears at run time, so the weights are "
            "chosen without rotation; --delegate cpu can, and loses less quality."
        )
    plan = read_plan(options, listener)
    if options.vision and is_seeing(plan.checkpoint.directory, options.delegate):
        scheme, images = _vision_scheme(options, limits), options.calibration_images
        directory, context = plan.checkpoint.directory, plan.max_context_len
        sight = open_sight(directory, scheme, images, context, listener)
        plan = replace(plan, sight=sight)
        if plan.reads_pictures:
            plan = replace(plan, text=with_pictures(plan.text, sight.settings.text.place))
            listener.note(picture_note(sight, plan.max_context_len))
        else:
            listener.note(_stock_note(sight))
        _require_unrotated_rows(plan)
        _require_whole_pictures(plan, sight)
    else:
        given = {
            "--vision-quant": options.vision_scheme and options.vision_scheme.name,
            "--calibration-images": options.calibration_images,
        }
        require_seeing(plan.checkpoint.directory, options.delegate, options.vision, given)
    if plan.text.template_fault:
        listener.note(
            "The runner's --chat will refuse this model, whose chat template is kept as text "
            f"only: {plan.text.template_fault}"
        )
    config, context = plan.checkpoint.config, plan.max_context_len
    note = context_note(config, limits, context) if options.max_context_len is None else None
    if note is not None:
        listener.note(note)
    directory = plan.checkpoint.directory
    for note in (sampling_note(directory), ends_note(directory, plan.text.eos_ids)):
        if note is not None:
            listener.note(note)
    name, ignored = not_applied(directory)
    if ignored:
        listener.note(
            f"Runners of the file do not apply {', '.join(ignored)} of {name}, by which "
            "transformers would choose other tokens."
        )
    for note in rotary_notes(config, context, plan.spec):
        listener.note(note)
    if plan.text.evaluation is None:
        listener.note(
            "Quality is not measured: the tokenizer makes too few tokens of the built-in text. "
            "To measure it, name a text of the model's own kind with --calibration."
        )
    plan = _with_room(plan, listener)
    note = size_note(plan)
    if note is not None:
        listener.note(note)
    if options.has_budget:
        plan = _with_room(replace(plan, scheme=within_budget(plan, listener)), listener)
    return plan_quantization(plan, listener)


def read_plan(
    options: ExportOptions, listener: Listener, ranks: Ranks = ALONE, with_text: bool = True
) -> Plan:
    """Returns what follows from the options and the checkpoint alone, which the delegate supports.

    Raises:
        ExportError, QuantError, TokenizerError, DelegateError: with the sentence to show.
    """
    limits = get_limits(options.delegate)
    require_keepable(options)
    checkpoint = find_checkpoint(options, listener)
    empty = empty_model(checkpoint.config)
    scheme = _scheme_for_delegate(limits, options.scheme)
    scheme = keeping(scheme, checkpoint, empty, listener)
    importance = None
    if options.imatrix is not None:
        scheme = weighed(scheme)
        importance, note = read_importance(options.imatrix, checkpoint, empty)
        if note is not None:
            listener.note(note)
    text = prepare_text(options, checkpoint, listener) if with_text else NO_TEXT
    context, seq_len = _lengths(options, checkpoint, limits, cached_bytes(empty, scheme, limits))
    decided = replace(options, scheme=scheme)
    require_supported(decided, checkpoint, limits, context, seq_len)
    cache = _cache(options, listener, 0)
    resources = Resources(cache, checkpoint.name, ranks=ranks, device=options.device)
    sampling = read_sampling(checkpoint.directory)
    plan = Plan(options, limits, checkpoint, empty, text, scheme, context, seq_len, resources)
    return replace(plan, sampling=sampling, importance=importance)


def plan_quantization(plan: Plan, listener: Listener) -> Plan:
    """Returns the plan with where large data is kept, the default widths and the calibration text;
    raises as its steps do."""
    resources = replace(plan.resources, spill=plan_memory(plan, listener))
    plan = replace(plan, resources=resources)
    if plan.options.mixed and not plan.options.has_budget:
        plan = replace(plan, scheme=choose_default_widths(plan, listener))
    return replace(plan, text=with_own_text(plan, listener))


def _drops_rotation(limits: Limits, scheme: Scheme) -> bool:
    """Whether the delegate has no linears that rotate their inputs, as the scheme's would."""
    rotates = scheme.name != "none" and scheme.choice.rotation == "inputs"
    return rotates and not limits.rotates


def _vision_scheme(options: ExportOptions, limits: Limits) -> Scheme:
    """How what sees is stored, as the delegate can."""
    own = Scheme("none") if options.scheme.name == "none" else DEFAULT_SCHEME
    scheme = window_scheme(options.vision_scheme or own, "--vision-quant", "what sees")
    return _scheme_for_delegate(limits, scheme)


def _stock_note(sight: Sight) -> str:
    """How pictures are given to a file that our runner does not read them with."""
    side = sight.settings.side
    return (
        "Stock ExecuTorch's MultimodalRunner calls this file's vision_encoder with normalized "
        f"pixels (1, 3, {side}, {side}); build/runner reads pictures with --delegate cpu only."
    )


def _require_unrotated_rows(plan: Plan) -> None:
    """
    Raises:
        ExportError: the embedding is rotated, and rows of pictures beside it are not.
    """
    if plan.scheme.name != "none" and plan.scheme.choice.folds_rotation:
        raise ExportError(
            f"rotation={plan.scheme.choice.rotation} rotates what the layers read, which the rows "
            "of pictures are not; use another rotation, or leave pictures out with --no-vision."
        )


def _require_whole_pictures(plan: Plan, sight: Sight) -> None:
    """
    Raises:
        ExportError: rows of a picture attend to each other, and a step does not take all.
    """
    rows = sight.spec.rows(sight.settings.side)
    if sight.spec.both_ways and rows > plan.max_seq_len:
        raise ExportError(
            f"The {rows} rows of a picture are read in one step, but --max-seq-len "
            f"{plan.max_seq_len} is less; allow {rows} or more."
        )


def _scheme_for_delegate(limits: Limits, scheme: Scheme) -> Scheme:
    """The scheme as the delegate stores it: int8 in groups or with one scale a row."""
    if scheme.name == "rtn8" and not limits.int8_groups:
        scheme = replace(scheme, whole_rows=True)
    if _drops_rotation(limits, scheme):
        scheme = replace(scheme, method=replace(scheme.choice, rotation="none"))
    return scheme


def _lengths(
    options: ExportOptions, checkpoint: Checkpoint, limits: Limits, item_bytes: int
) -> tuple[int, int]:
    """Returns max_context_len and max_seq_len, with defaults filled in.

    Raises:
        ExportError: they do not fit each other or the model.
    """
    context = options.max_context_len
    if context is None:
        context = default_context(checkpoint.config, limits, item_bytes)
    seq_len = context if options.max_seq_len is None else options.max_seq_len
    check_lengths(checkpoint.config, context, seq_len)
    return context, seq_len


def _with_room(plan: Plan, listener: Listener) -> Plan:
    """Returns the plan with the size of its file, for which its cache leaves room."""
    size = require_room(plan)
    resources = replace(plan.resources, cache=_cache(plan.options, listener, size))
    return replace(plan, resources=resources, file_size=size)


def _cache(options: ExportOptions, listener: Listener, file_size: int) -> Cache | None:
    """Returns the options' cache, which leaves room for the file."""
    if options.cache is None:
        return None
    room = room_to_leave(options.cache, options.out, file_size)
    return Cache(options.cache, default_size(), listener.note, room)
