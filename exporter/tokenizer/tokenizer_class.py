"""Which class of `transformers` reads a tokenizer, and what the class itself says of its tokens.

Only classes that add something to the files have a name here; for all others "" stands.
"""

from pathlib import Path
from typing import Any

LLAMA, CODE_LLAMA, GPT2, NEOX = (
    *("LlamaTokenizer", "CodeLlamaTokenizer", "GPT2Tokenizer", "GPTNeoXTokenizer"),
)
GEMMA, QWEN2, QWEN35, COHERE = (
    *("GemmaTokenizer", "Qwen2Tokenizer", "Qwen3_5Tokenizer", "CohereTokenizer"),
)
_END = "<|endoftext|>"
_LLAMA_TOKENS = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
_QWEN_TOKENS = dict.fromkeys(("unk_token", "eos_token", "pad_token"), _END)
_GPT_TOKENS = dict.fromkeys(("unk_token", "bos_token", "eos_token"), _END)

# The tokens of a class, where the files do not name them.
DEFAULT_TOKENS: dict[str, dict[str, str]] = {
    LLAMA: _LLAMA_TOKENS,
    CODE_LLAMA: {
        **_LLAMA_TOKENS,
        "prefix_token": "\u2581<PRE>",
        "middle_token": "\u2581<MID>",
        "suffix_token": "\u2581<SUF>",
        "eot_token": "\u2581<EOT>",
        "fill_token": "<FILL_ME>",
    },
    GPT2: _GPT_TOKENS,
    NEOX: {**_GPT_TOKENS, "pad_token": "<|padding|>"},
    QWEN2: _QWEN_TOKENS,
    QWEN35: _QWEN_TOKENS,
    GEMMA: {
        "unk_token": "<unk>",
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        "pad_token": "<pad>",
        "mask_token": "<mask>",
    },
    COHERE: {
        "unk_token": "<UNK>",
        "bos_token": "<BOS_TOKEN>",
        "eos_token": "<|END_OF_TURN_TOKEN|>",
        "pad_token": "<PAD>",
        "cls_token": "<CLS>",
        "sep_token": "<SEP>",
        "mask_token": "<MASK_TOKEN>",
    },
}
OF_SENTENCEPIECE = ("", LLAMA, CODE_LLAMA, GEMMA)  # the classes that read a SentencePiece model
# Other classes with steps of their own in `transformers` 5, which are not known here.
UNKNOWN_STEPS = {
    *("AlbertTokenizer", "BarthezTokenizer", "BertTokenizer", "BigBirdTokenizer", "T5Tokenizer"),
    *("BlenderbotTokenizer", "CamembertTokenizer", "CLIPTokenizer", "CodeGenTokenizer"),
    *("DebertaTokenizer", "DebertaV2Tokenizer", "FunnelTokenizer", "HerbertTokenizer"),
    *("MBartTokenizer", "MBart50Tokenizer", "MPNetTokenizer", "NllbTokenizer", "NougatTokenizer"),
    *("OpenAIGPTTokenizer", "PegasusTokenizer", "ReformerTokenizer", "RemBertTokenizer"),
    *("RobertaTokenizer", "SeamlessM4TTokenizer", "Siglip2Tokenizer", "SplinterTokenizer"),
    *("UdopTokenizer", "WhisperTokenizer", "XGLMTokenizer", "XLMRobertaTokenizer"),
    *("XLNetTokenizer", "LasrTokenizer", "ParakeetTokenizer"),
}
# Model types with a class of their own, which reads a tokenizer whose files name none.
_OF_MODELS = {
    **dict.fromkeys(("gemma", "gemma2", "gemma3", "gemma3_text", "gemma3n", "gemma3n_text"), GEMMA),
    **dict.fromkeys(("qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_next"), QWEN2),
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen2_audio", "qwen2_5_omni", "qwen3_vl"), QWEN2),
    **dict.fromkeys(("qwen3_vl_moe", "qwen3_omni_moe", "qwen3_asr", "colqwen2"), QWEN2),
    **dict.fromkeys(("internvl", "ovis2", "audioflamingo3", "qianfan_ocr", "lighton_ocr"), QWEN2),
    **dict.fromkeys(("qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"), QWEN35),
    **dict.fromkeys(("gpt2", "gpt_neo", "gptj", "phi", "starcoder2", "dbrx", "jais2", "opt"), GPT2),
    **dict.fromkeys(("gpt_neox", "mamba", "mamba2", "mpt", "olmo", "olmoe", "rwkv"), NEOX),
    **dict.fromkeys(("cohere", "cohere2", "aya_vision"), COHERE),
    **dict.fromkeys(("idefics", "idefics2"), LLAMA),
    "code_llama": CODE_LLAMA,
}
# Those whose own class reads the tokenizer whatever class the files name.
_CERTAIN = {"qwen2", "qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text"}
# Those whose tokenizer.json is always taken as it is.
_AS_IT_IS = {
    *("mistral", "mixtral", "ministral", "ministral3", "mistral3", "phi3", "phimoe", "phi3_v"),
    *("olmo2", "olmo3", "olmo_hybrid", "flex_olmo", "granite", "granitemoe", "granitemoehybrid"),
    *("granitemoeshared", "stablelm", "glm", "glm4", "glm4_moe", "ernie4_5", "ernie4_5_moe"),
    *("internlm2", "internlm3", "iquestcoder", "nemotron", "hyperclovax", "smolvlm", "arctic"),
    *("persimmon", "minicpm3", "jamba", "minimax_m2", "gpt_bigcode", "llava", "llava_next"),
}


# Those of Mistral, of which versions of `transformers` before 5 saved a wrong pattern of splits.
_OF_MISTRAL = {"mistral", "mistral3", "voxtral", "ministral", "pixtral"}


def class_of(config: dict[str, Any], directory: Path, model: dict[str, Any]) -> str:
    """The class for a tokenizer in a directory; "" if there is none.

    Args:
        config: the fields of `tokenizer_config.json`.
        model: those of `config.json`.
    """
    kind, named = model.get("model_type"), config.get("tokenizer_class")
    kind = kind if isinstance(kind, str) else ""
    named = named if isinstance(named, str) else model.get("tokenizer_class")
    named = named.removesuffix("Fast") if isinstance(named, str) else ""
    if kind in _AS_IT_IS:
        return ""
    own = _OF_MODELS.get(kind, "")
    if own and (kind in _CERTAIN or not named):
        return own
    if named == LLAMA and _is_byte_level(directory / "tokenizer.json"):
        return ""
    return named if named in DEFAULT_TOKENS or named in UNKNOWN_STEPS else ""


def is_certain(model: dict[str, Any]) -> bool:
    """Whether the model type has a class of its own, whatever class the files name."""
    kind = model.get("model_type")
    return isinstance(kind, str) and kind in _CERTAIN


def is_old_mistral(model: dict[str, Any]) -> bool:
    """Whether `config.json` is of a model of Mistral that no version from 5 on has saved."""
    version = str(model.get("transformers_version") or "0")
    kind = model.get("model_type")
    known = kind is None or (isinstance(kind, str) and kind in _OF_MISTRAL)
    return bool(model) and known and _major(version) < 5


def _major(version: str) -> int:
    number = version.partition(".")[0]
    return int(number) if number.isdecimal() and len(number) < 9 else 0


def _is_byte_level(path: Path) -> bool:
    return path.is_file() and b'"ByteLevel"' in path.read_bytes()
