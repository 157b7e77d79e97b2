"""The two tiers of tests, shards for several machines, and the order of files.

Files named here carry the marker `full`; all others are quick: under 3 s of processor time a test.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FULL = {
    "training": (
        "tests/cli/test_cli_personal.py",
        "tests/uses/test_uses_ppo.py",
        "tests/learning/recipes",
        "tests/learning/test_learning_train.py",
        "tests/studies/test_studies_ppo.py",
    ),
    "a conversion of a whole model": ("tests/models/test_models_gguf_documented.py",),
    "the whole source": ("tests/test_module_state.py",),
    "guided writing": (
        "tests/guidance/test_guidance_segments.py",
        "tests/guidance/test_guidance_write.py",
        "tests/scorers/test_scorers_guiding.py",
        "tests/uses/test_processor.py",
        "tests/uses/test_uses_decode_planted.py",
    ),
    "personal models": (
        "tests/learning/personal/test_personal_amortised.py",
        "tests/learning/personal/test_personal_heads.py",
        "tests/scorers/test_scorers_personal_policy.py",
        "tests/scorers/test_scorers_third_users.py",
    ),
    "whole pages": (
        "tests/reports/page/test_page_hostile.py",
        "tests/reports/page/test_page_report.py",
        "tests/reports/page/test_page_rows.py",
        "tests/study/test_study_pages_browser.py",
        "tests/study/test_study_pages_planted.py",
    ),
    "Ray": ("tests/execution/test_execution_ray.py",),
    "whole processes": ("tests/comparison/test_comparison_finished.py",),
    "whole runs by files": ("tests/cli/test_cli_batches.py", "tests/cli/test_cli_score.py"),
    "planted worlds": (
        "tests/comparison/test_comparison_planted_noise.py",
        "tests/comparison/test_comparison_redraws.py",
        "tests/validity/test_validity_coefficients.py",
        "tests/trainers/test_trainers_ppo_optimum.py",
        "tests/metrics/ranks/test_ranks_planted.py",
        "tests/learning/personal/test_personal_p_dpo_planted.py",
        "tests/learning/personal/test_personal_planted.py",
        "tests/guidance/test_guidance_enumerated.py",
        "tests/selfcheck/test_selfcheck_run.py",
        "tests/validity/test_validity_planted.py",
        "tests/construction/pairs/test_pairs_planted.py",
    ),
    "kill sweeps": (
        "tests/test_files.py",
        "tests/construction/own_text/test_construction_killed.py",
        "tests/construction/pairs/test_pairs_killed.py",
        "tests/uses/test_uses_decode_killed.py",
        "tests/uses/test_uses_best_of_n_killed.py",
        "tests/trainers/test_trainers_ppo_killed.py",
        "tests/evaluation/test_evaluation_again.py",
        "tests/evaluation/test_evaluation_killed.py",
        "tests/evaluation/test_evaluation_shards_killed.py",
        "tests/study/test_study_load.py",
    ),
    "endpoints": (
        "tests/bench/test_bench_http.py",
        "tests/bench/test_bench_serving_real.py",
        "tests/cli/test_cli_endpoints.py",
        "tests/cli/test_cli_refusals.py",
        "tests/engines/test_engines_http_client.py",
        "tests/engines/test_engines_http_limits.py",
        "tests/engines/test_engines_http_speed.py",
        "tests/engines/test_engines_http_streaming.py",
        "tests/scorers/test_scorers_endpoints.py",
        "tests/scorers/test_scorers_prompt_logprobs.py",
        "tests/scorers/test_scorers_reward_server.py",
        "tests/serve/test_serve_clients.py",
        "tests/serve/test_serve_fuzz.py",
        "tests/serve/test_serve_process.py",
    ),
    "real servers and a real browser": (
        "tests/servers",
        "tests/scorers/test_scorers_serve.py",
        "tests/reports/page/test_page_browser.py",
        "tests/site/test_site_built.py",
        "tests/site/test_site_faults.py",
    ),
    "real models and data, speed, memory": (
        "tests/bench/test_bench_decoding.py",
        "tests/bench/test_bench_prefix.py",
        "tests/bench/test_bench_profile.py",
        "tests/benchmarks/test_benchmarks_real_votes.py",
        "tests/cli/test_cli_decode.py",
        "tests/cli/test_cli_policy_accuracy.py",
        "tests/construction/checks/test_audit_real.py",
        "tests/construction/checks/test_checks_real.py",
        "tests/construction/own_text/test_construction_layouts.py",
        "tests/construction/sources/test_construction_sources_dump.py",
        "tests/construction/test_construction_memory.py",
        "tests/data/test_data_memory.py",
        "docs/decoding.md",
        "docs/policy_accuracy.md",
        "docs/transformers.md",
        "tests/trainers/test_trainers_export_frameworks.py",
        "tests/uses/test_uses_policy_accuracy.py",
        "tests/quality/test_quality_real.py",
        "tests/uses/test_processor_real.py",
        "tests/embeddings/test_embeddings_memory.py",
        "tests/guidance/test_guidance_real.py",
        "tests/engines/test_engines_memory.py",
        "tests/engines/test_engines_real.py",
        "tests/execution/test_execution_memory.py",
        "tests/gauntlet/test_gauntlet_families.py",
        "tests/gauntlet/test_gauntlet_tokenizers.py",
        "tests/gauntlet/test_gauntlet_variants.py",
        "tests/reports/page/test_page_large.py",
        "tests/studies",
        "tests/test_accelerator.py",
    ),
}
PATHS = [ROOT / path for paths in FULL.values() for path in paths]
TRACED = [
    ROOT / path
    for path in (
        *FULL["guided writing"],
        *FULL["personal models"],
        *FULL["whole pages"],
        "tests/comparison/test_comparison_redraws.py",
        "tests/reports/page/test_page_browser.py",
        "tests/scorers/test_scorers_serve.py",
        "tests/test_files.py",
        "tests/validity/test_validity_coefficients.py",
    )
]
"""Long tests that read lines which the quick ones do not: `make coverage` runs both."""
LONGEST = [
    ROOT / path
    for path in (
        "tests/comparison/test_comparison_planted_noise.py",
        "tests/uses/test_uses_ppo.py",
        "tests/trainers/test_trainers_ppo_optimum.py",
        "tests/uses/test_processor_real.py",
        "tests/engines/test_engines_memory.py",
        "tests/evaluation/test_evaluation_killed.py",
        "tests/execution/test_execution_memory.py",
        "tests/execution/test_execution_ray.py",
        "tests/learning/personal/test_personal_p_dpo_planted.py",
        "tests/learning/personal/test_personal_planted.py",
        "tests/guidance/test_guidance_enumerated.py",
        "tests/selfcheck/test_selfcheck_run.py",
        "tests/studies/test_studies_selection_crisis.py",
        "tests/studies/test_studies_validity.py",
        "tests/learning/recipes/test_training_autoregressive.py",
    )
]
"""They start first, so that no process ends with a long file alone: 40 s or more each."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shard", default="1/1", metavar="K/N", help="the K-th of N parts, by file")


def pytest_configure(config: pytest.Config) -> None:
    if missing := [str(path) for path in (*PATHS, *LONGEST) if not path.exists()]:
        raise pytest.UsageError(f"tests/tiers.py: no {', '.join(missing)}: correct FULL or LONGEST")
    config.option.loadscopereorder = False  # pytest-xdist then keeps the order that is made below


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    files = sorted({item.path for item in items})
    part, parts = map(int, config.getoption("--shard").split("/"))
    chosen = set(files[part - 1 :: parts])
    config.hook.pytest_deselected(items=[item for item in items if item.path not in chosen])
    tests = Counter(item.path for item in items)
    items[:] = sorted(
        (item for item in items if item.path in chosen),
        key=lambda item: (item.path not in LONGEST, -tests[item.path]),
    )
    for item in items:
        if any(item.path.is_relative_to(path) for path in PATHS):
            item.add_marker("full")
        if item.path in TRACED:
            item.add_marker("traced")
