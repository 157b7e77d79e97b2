"""A study of rows under contexts, frozen before anybody is asked."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.random import Generator
from scipy.optimize import linear_sum_assignment

from palate.benchmarks import Dataset
from palate.comparison.grid import POSTS
from palate.contexts import NOTHING, build_context, kinds_of, pool_of, refuse_other_draws, shows
from palate.errors import UsageError
from palate.evaluation import make_rows
from palate.records import Context, Settings, Slate, normal_form, user_key
from palate.records.arguments import grouped
from palate.seeding import digest, rng, shuffled
from palate.session import default_session
from palate.study.records import (
    GoldRow,
    ListEntry,
    PageTexts,
    Study,
    StudyItem,
    StudyPlan,
    read_page_texts,
)

BOUNDS = {"per_pair": (1, 1000), "most_failed_checks": (0, 100), "margin": (0.01, 2)}
TRIES = 20
Lists = list[list[StudyItem]]
JOINT = ("joint",)
"""A vertex of its own."""


@dataclass(frozen=True)
class StudyOptions:
    """Of a study of what a model is shown; raises `UsageError` for a number out of its bounds."""

    raters: int
    per_pair: int = 3
    """Raters that each item gets."""
    contexts: tuple[str, ...] = ()
    """By default those of `palate evaluate`."""
    checks: int = 4
    """Checks that each rater gets."""
    margin: float = 0.25
    most_failed_checks: int = 1
    rated: bool = True
    """Whether both answers are rated where nothing is shown; equivalence needs it."""
    pages: PageTexts = field(default_factory=read_page_texts)

    def __post_init__(self) -> None:
        for name, (least, most) in {**BOUNDS, "checks": (0, 100)}.items():
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
    settings, session = settings or Settings(), default_session()
    seed, raters = settings.seed, options.raters
    usual = POSTS if any(row.profile for row in dataset.rows) else (NOTHING,)
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
        **{name: getattr(options, name) for name in (*BOUNDS, "raters", "rated")},
        items={name: item.hash for name, item in every.items()},
        gold=tuple(sorted(row.hash for row in gold)),
        left_out=tuple(sorted(left_out)),
        checks=tuple(check.id for check in checks),
        lists=order_lists(lists, assign_checks(checks, raters, options.checks, seed), seed),
        **dict(options.pages),
    )
    return Study(Path(folder), plan, every, tuple(gold))


def make_items(
    dataset: Dataset, contexts: Sequence[Context], seed: int
) -> tuple[list[StudyItem], list[GoldRow], set[str]]:
    """Return an item for each slate, in the order of their hashes, and the rows behind them.

    A row that has nothing to show under a context that shows something is left out of it; the ids
    that such slates would have come last. Raises `BenchmarkError` for rows that are no pairs and a
    context without what it shows, and `UsageError` for a context that shows gold and where nothing
    is left to ask.
    """
    items: dict[str, StudyItem] = {}
    users: dict[str, set[str]] = {}
    gold, left_out = [], set()
    pairs, pools = dataset.pairs, dataset.user_pools(seed)
    for context in contexts:
        if context.oracle:
            raise UsageError(f"-c {context.spec}: shows gold, which no page may hold")
        rows = make_rows(dataset, context, seed=seed)
        rows.prepare()
        needs = getattr(context, "needs", ("posts", "choices"))
        for k, row in enumerate(rows):
            if not (row.slate.shown or context.empty):
                left_out.add(StudyItem.of(row.slate).id)
                continue
            pair = pairs[k // rows.draws]
            item = StudyItem.of(row.slate, category=pair.category)
            items.setdefault(item.id, item)
            of_item = users.setdefault(item.id, set())
            of_item.add(user := user_key(pair.user_id))
            if shows(context.spec) == "stranger":
                pool = pools[pair.subset].at(pair.id, pair.user_id, k % rows.draws)
                if parts := getattr(context, "parts", ()):
                    pool = pool_of(parts, pool)
                like = getattr(context, "same", ""), kinds_of
                strangers = [pool.stranger(of, *like) for of in needs if of != "aspects"]
                of_item.update(user_key(other.id) for other in strangers if other is not None)
            side = "first" if item.answers[0] == pair.chosen else "second"
            named = {"item": item.id, "context": context.spec, "row": rows.id(k)}
            gold.append(GoldRow(**named, chosen=side, user=user))
    if not items:
        raise UsageError(f"{dataset.name}: no row has anything to show; add -c none")
    whole = (items[name].model_copy(update={"users": (*sorted(users[name]),)}) for name in items)
    return sorted(whole, key=lambda item: item.id), gold, left_out


def make_checks(items: Sequence[StudyItem], n: int, per_rater: int, seed: int) -> list[StudyItem]:
    """Return at most n checks, drawn without a look at what anybody chose.

    They are rated where any item is, and else hold the posts of the item that they are made of. The
    other question is of another category where there is one. Raises `UsageError` where there are
    fewer than each rater gets.
    """
    of_question = grouped(
        [item for item in items if item.asks == "better"] or items,
        lambda item: digest([(it.role, normal_form(it.content)) for it in item.question]),
    )
    if per_rater and len(of_question) < 2:
        what = "one question only, so no checks"
        raise UsageError(f"{what}; --checks 0 asks without, and shows no equivalence")
    order = shuffled(sorted(of_question), "checked questions", seed)
    checks: dict[str, StudyItem] = {}
    for k in range(TRIES * max(n, len(order)) if n else 0):
        name = order[k % len(order)]
        base = shuffled(of_question[name], "check of", seed, k)[0]
        apart = [other for other in order if of_question[other][0].category != base.category]
        others = apart or [other for other in order if other != name]
        strange = shuffled(of_question[shuffled(others, "by", seed, k)[0]], "with", seed, k)[0]
        right = shuffled(base.answers, "right", seed, k)[0]
        wrong = shuffled(strange.answers, "wrong", seed, k)[0]
        known = (answer for item in of_question[name] for answer in item.answers)
        if normal_form(wrong) in map(normal_form, known):
            continue
        check = StudyItem.of(
            Slate(question=base.question, shown=base.shown, candidates=(right, wrong)),
            kind="check",
            category=base.category,
            expected="first" if right < wrong else "second",
            users=sorted({*base.users, *strange.users}),
        )
        checks.setdefault(check.pair, check)
        if len(checks) == n:
            break
    if len(checks) < per_rater:
        raise UsageError(f"--checks {per_rater}: only {len(checks)} can be made of these questions")
    return sorted(checks.values(), key=lambda check: check.id)


def assign_items(
    items: Sequence[StudyItem], labels: Mapping[str, str], raters: int, per_pair: int, seed: int
) -> Lists:
    """Return each rater's items: nobody meets a pair of answers twice, each item gets `per_pair`.

    Raters get equally many items, or one more, and of each label about their share. Raises
    `UsageError` for too few raters, and for more than there is work for.
    """
    of_pair = grouped(items, lambda item: item.pair)
    needed, most = per_pair * max(map(len, of_pair.values())), per_pair * len(items)
    if not needed <= raters <= most:
        raise UsageError(
            f"--raters {raters}: expected {needed:,} to {most:,}, so that each item gets "
            f"{per_pair}, nobody meets a pair of answers twice, and everybody has work; a lower "
            "--per-pair needs fewer raters, as do fewer contexts (-c none)"
        )
    generator = rng("study lists", seed)
    share, pairs = Counter(labels[item.id] for item in items), list(of_pair.values())
    column = {label: k for k, label in enumerate(share)}
    met, loads = np.zeros((raters, len(share))), np.zeros(raters)
    lists: Lists = [[] for _ in range(raters)]
    for number in generator.permutation(len(pairs)):
        places = [item for item in pairs[int(number)] for _ in range(per_pair)]
        # Who has least takes part, so that nobody is ever two items ahead.
        takers = np.lexsort((generator.random(raters), loads))[: len(places)]
        loads[takers] += 1
        columns = np.array([column[labels[item.id]] for item in places])
        # Who has met least of a label gets it; what is less than an item decides between equals.
        cost = met[np.ix_(takers, columns)]
        cost += generator.random(cost.shape) / (2 * len(items))
        for row, place in zip(*linear_sum_assignment(cost), strict=True):
            lists[takers[row]].append(places[place])
            met[takers[row], columns[place]] += 1 / share[labels[places[place].id]]
    return lists


def assign_checks(checks: Sequence[StudyItem], raters: int, each: int, seed: int) -> Lists:
    """Return so many checks for each rater; each check gets equally many raters, or one more."""
    generator, loads, lists = rng("study checked", seed), np.zeros(len(checks)), []
    for _ in range(raters):
        drawn = np.lexsort((generator.random(len(checks)), loads))[:each]
        loads[drawn] += 1
        lists.append([checks[int(k)] for k in drawn])
    return lists


def order_lists(lists: Lists, checks: Lists, seed: int) -> tuple[tuple[ListEntry, ...], ...]:
    """Return what each rater is asked: items at random, a check in each of as many stretches.

    Sides are balanced to one within every item and every rater; of checks it is the side on which
    the expected answer stands.
    """
    generator = rng("study sides", seed)
    both = chain(enumerate(lists), enumerate(checks))
    listed = [(k, item) for k, of in both for item in of]
    ways = balanced_directions([((k, item.kind), item.id) for k, item in listed], generator)
    swapped = {
        (k, item.id): way != (item.expected == "second")
        for (k, item), way in zip(listed, ways, strict=True)
    }
    ordered = []
    for k, (items, checked) in enumerate(zip(lists, checks, strict=True)):
        n = len(items) + len(checked)
        bounds = [n * j // max(len(checked), 1) for j in range(len(checked) + 1)]
        at = {int(generator.integers(*ends)) for ends in zip(bounds, bounds[1:], strict=False)}
        waiting, checking = (iter(shuffled(of, "order", seed, k)) for of in (items, checked))
        order = [next(checking if j in at else waiting).id for j in range(n)]
        ordered.append(tuple(ListEntry(item=name, swapped=swapped[k, name]) for name in order))
    return tuple(ordered)


def balanced_directions(
    edges: Sequence[tuple[Hashable, Hashable]], generator: Generator
) -> list[bool]:
    """Return for each edge whether it is walked from its first end to its second.

    At every vertex as many are walked towards it as away from it, or one more of either: all edges
    are walked in rounds, as Euler did.

    >>> from palate.seeding import rng
    >>> edges = [(item, rater) for item in "abc" for rater in (1, 2)]
    >>> away = balanced_directions(edges, rng("sides"))
    >>> sum(away), [away[k] != away[k + 1] for k in (0, 2, 4)]
    (3, [True, True, True])
    """
    ends, touching = list(edges), defaultdict[Hashable, list[int]](list)
    for number, edge in enumerate(edges):
        for vertex in edge:
            touching[vertex].append(number)
    # With an edge more to those of odd degree, every walk comes back to where it began.
    for vertex in [vertex for vertex, numbers in touching.items() if len(numbers) % 2]:
        for end in (vertex, JOINT):
            touching[end].append(len(ends))
        ends.append((vertex, JOINT))
    for numbers in touching.values():
        generator.shuffle(numbers)
    forward: dict[int, bool] = {}
    for start in list(touching):
        while touching[start]:
            vertex, turned = start, bool(generator.integers(2))
            while touching[vertex]:
                number = touching[vertex].pop()
                if number not in forward:
                    first, second = ends[number]
                    forward[number] = (vertex == first) != turned
                    vertex = second if vertex == first else first
    return [forward[number] for number in range(len(edges))]
