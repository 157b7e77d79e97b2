"""A study of rows under contexts, frozen before anybody is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from palate.benchmarks import Dataset
from palate.comparison.grid import POSTS
from palate.contexts import NOTHING, build_context, refuse_other_draws
from palate.errors import UsageError
from palate.records import Settings
from palate.session import default_session
from palate.study.folder import Study
from palate.study.planning.checks import make_checks
from palate.study.planning.items import make_items
from palate.study.planning.lists import assign_checks, assign_items, order_lists
from palate.study.planning.page_texts import PageTexts, read_page_texts
from palate.study.records import StudyPlan

BOUNDS = {"per_pair": (1, 1000), "checks": (0, 100), "most_failed_checks": (0, 100)}


@dataclass(frozen=True)
class StudyOptions:
    """Of a study whose raters judge what a model is shown.

    Raises `UsageError` for a number out of its bounds.
    """

    raters: int
    per_pair: int = 3
    """Raters that each item gets."""
    contexts: tuple[str, ...] = ()
    """By default those of `palate evaluate`."""
    checks: int = 4
    """Checks that each rater gets."""
    margin: float = 0.25
    most_failed_checks: int = 1
    pages: PageTexts = field(default_factory=read_page_texts)

    def __post_init__(self) -> None:
        for name, (least, most) in {**BOUNDS, "margin": (0.01, 2)}.items():
            if not least <= getattr(self, name) <= most:
                flag = name.replace("_", "-")
                raise UsageError(f"--{flag} {getattr(self, name)}: expected {least} to {most}")


def plan_study(
    dataset: Dataset, options: StudyOptions, folder: Path | str, settings: Settings | None = None
) -> Study:
    """Return a study of a benchmark's pairs, which `write` puts into its folder.

    Raises `BenchmarkError` for rows that are no pairs and a context without what it shows, and
    `UsageError` for too few raters or questions and a context of gold.

    >>> from palate.benchmarks import load_benchmark
    >>> study = plan_study(load_benchmark("tasting"), StudyOptions(raters=15), "study")
    >>> len(study.items) - len(study.plan.checks), len(study.plan.lists)
    (240, 15)
    """
    settings = settings or Settings()
    seed, raters = settings.seed, options.raters
    usual = POSTS if any(row.profile for row in dataset.rows) else (NOTHING,)
    session = default_session()
    built = (build_context(spec, session, settings) for spec in options.contexts or usual)
    contexts = {context.spec: context for context in built}
    refuse_other_draws(contexts)
    items, gold, left_out = make_items(dataset, list(contexts.values()), seed)
    labels = {row.item: row.context for row in gold}
    lists = assign_items(items, labels, raters, options.per_pair, seed)
    # A check is met by about as many raters as an item.
    n_checks = max(options.checks, -(-raters * options.checks // options.per_pair))
    checks = make_checks(items, n_checks, options.checks, seed)
    every = {item.id: item for item in (*items, *checks)}
    plan = StudyPlan(
        benchmark=dataset.name,
        content_hash=dataset.content_hash,
        contexts=tuple(contexts),
        seed=seed,
        raters=raters,
        per_pair=options.per_pair,
        margin=options.margin,
        most_failed_checks=options.most_failed_checks,
        items={name: item.hash for name, item in every.items()},
        gold=tuple(sorted(row.hash for row in gold)),
        left_out=tuple(sorted(left_out)),
        checks=tuple(check.id for check in checks),
        lists=order_lists(lists, assign_checks(checks, raters, options.checks, seed), seed),
        **dict(options.pages),
    )
    return Study(Path(folder), plan, every, tuple(gold))
