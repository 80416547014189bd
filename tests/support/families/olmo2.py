"""OLMo 2."""

from support.family_data import EITHER, FamilyData, GgufForm, Row
from support.rotary_fields import LLAMA3, PROPORTIONAL

DATA = FamilyData(
    models="OLMo 2",
    row=Row(
        "norms after blocks, norms of all heads at once",
        "7e-6",
        "`cpu` `coreml` `mlx` `mps`",
        "`xnnpack`",
    ),
    cases={
        "plain": {},
        "proportional-rope": PROPORTIONAL,
        "biases": dict(attention_bias=True, num_key_value_heads=6, **LLAMA3),
    },
    drawn={"attention_bias": EITHER},
    gguf={"plain": GgufForm("olmo2")},
)
