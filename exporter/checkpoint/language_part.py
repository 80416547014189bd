"""The language model's tensors among those of a checkpoint that also sees, hears or predicts more.

Such a checkpoint keeps them below `language_model.` or `text_model.`, and its config nests their
fields in `text_config`. What trains or compiles a model puts names of its own around a causal LM's.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_PLACES = {
    "language_model.model.": "model.",
    "language_model.lm_head.": "lm_head.",
    "model.language_model.": "model.",
    "model.text_model.": "model.",
}
_HEAD = "lm_head."
_BASE = "model."  # what a causal LM puts before the names of the decoder saved alone
_BARE = ("embed_tokens.weight", "norm.weight")
_OTHER_HEADS = (
    *("mtp.", "model.mtp.", "medusa_head."),  # that predict several tokens
    *("v_head.", "value_head.", "score.", "reward_head.", "classifier."),  # that judge texts
)
# Computed, not learned: old checkpoints stored tables of rotations and masks.
_HARMLESS = (".rotary_emb.inv_freq", ".attention.bias", ".masked_bias")
# Of DistributedDataParallel, torch.compile, FSDP and checkpoints of activations.
_WRAPPERS = {"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
_AROUND = re.compile(r"^(?:base_model\.)?(?:model\.)*(?=(?:model|lm_head)\.)")  # PEFT's


@dataclass(frozen=True)
class LanguagePart:
    """
    Attributes:
        names: the stored name of each tensor by the name that a causal LM gives it.
        left_out: how many tensors of each other part are not read, by its name.
        is_nested: whether the checkpoint holds more than a causal LM.
        is_wrapped: whether names have more around them than the model gave.
    """

    names: dict[str, str]
    left_out: dict[str, int]
    is_nested: bool
    is_wrapped: bool


def find_language_part(stored: Iterable[str]) -> LanguagePart:
    """Finds the language model among stored names."""
    places = _unwrapped([name for name in stored if not name.endswith(_HARMLESS)])
    kept = list(places)
    is_nested = any(name.startswith(tuple(_PLACES)) for name in kept)
    is_bare = any(name in _BARE for name in kept)
    names, others = {}, []
    for name in kept:
        ours = _own_name(name, is_nested)
        if ours is None:
            others.append(name)
        else:
            names[_BASE + ours if is_bare and not ours.startswith(_HEAD) else ours] = places[name]
    is_wrapped = any(name != stored for name, stored in places.items())
    return LanguagePart(names, dict(Counter(map(part_of, others))), is_nested, is_wrapped)


def _unwrapped(stored: list[str]) -> Mapping[str, str]:
    """Returns the stored names by those that the model itself gave, if these are all different."""
    names = {
        _AROUND.sub("", ".".join(p for p in name.split(".") if p not in _WRAPPERS), 1): name
        for name in stored
    }
    return names if len(names) == len(stored) else {name: name for name in stored}


def _own_name(name: str, is_nested: bool) -> str | None:
    """Returns a causal LM's name of a tensor; None if a causal LM has no such tensor."""
    if name.startswith(_OTHER_HEADS):
        return None
    if not is_nested or name.startswith(_HEAD):
        return name
    for place, ours in _PLACES.items():
        if name.startswith(place):
            return ours + name.removeprefix(place)
    return None


def part_of(name: str) -> str:
    """The part of a tensor or module, such as vision_tower of model.vision_tower.encoder."""
    return name.removeprefix(_BASE).partition(".")[0]
