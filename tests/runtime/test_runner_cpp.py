"""The C++ test programs, a case at a time."""

import subprocess
from pathlib import Path

import pytest

CASES = {
    "constraint_test": [
        "masks_are_those_of_single_tokens",
        "truncating_restores_what_was",
        "copies_go_their_own_ways",
        "ends_are_allowed_where_the_text_is_complete",
        "memory_is_bounded",
    ],
    "filters_test": [
        "typical_keeps_what_llama_cpp_keeps",
        "xtc_keeps_what_llama_cpp_keeps",
        "dynamic_temperature_is_llama_cpps",
        "the_chain_has_llama_cpps_order",
        "xtc_comes_with_its_probability",
        "mirostat_follows_llama_cpp",
        "dry_takes_what_llama_cpp_takes",
        "a_long_repetition_has_a_finite_penalty",
    ],
    "sampler_test": [
        "greedy_takes_the_likeliest",
        "nan_is_never_chosen",
        "infinite_logits_are_allowed",
        "temperature_shapes_the_distribution",
        "top_k_keeps_the_likeliest",
        "top_p_keeps_the_fewest",
        "min_p_keeps_by_ratio",
        "filters_apply_in_order",
        "a_seed_repeats",
    ],
    "ops_test": [
        "sdpa_reads_no_key_past_the_call",
        "sdpa_refuses_what_does_not_fit",
        "sdpa_takes_a_mask",
        "sdpa_refuses_other_masks",
        "sdpa_refuses_what_it_does_not_do",
        "update_writes_its_positions_and_no_other",
        "update_refuses_what_does_not_fit",
    ],
}


@pytest.mark.parametrize(
    ("program", "case"), [(program, case) for program, cases in CASES.items() for case in cases]
)
def test_case(cpp_build: Path, program: str, case: str) -> None:
    result = subprocess.run([cpp_build / program, case], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("program", CASES)
def test_every_case_is_run(cpp_build: Path, program: str) -> None:
    result = subprocess.run([cpp_build / program, "--list"], capture_output=True, text=True)
    assert result.stdout.split() == CASES[program]
