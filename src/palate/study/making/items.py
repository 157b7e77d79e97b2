"""From a benchmark's rows under contexts to what people are asked: each slate is one item."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from palate.benchmarks import Dataset
from palate.contexts import shows
from palate.errors import UsageError
from palate.evaluation import ContextRows, make_rows
from palate.records import Context, user_key
from palate.study.records import GoldRow, StudyItem


def make_items(
    dataset: Dataset, contexts: Sequence[Context], seed: int
) -> tuple[list[StudyItem], list[GoldRow]]:
    """Return an item for each slate, sorted by id, and the rows behind them.

    A row that has nothing to show under a context that shows something is left out of it.

    Raises `BenchmarkError` for rows that are no pairs and a context without what it shows, and
    `UsageError` for a context that shows gold and where nothing is left to ask.
    """
    items: dict[str, StudyItem] = {}
    users: dict[str, set[str]] = {}
    gold = []
    assert dataset.pairs is not None  # raises where a row is none
    for context in contexts:
        if context.oracle:
            raise UsageError(f"-c {context.spec}: shows gold, which no page may hold")
        rows = make_rows(dataset, context, seed=seed)
        rows.prepare()
        strangers = list(_strangers(dataset, rows, seed))
        for k, row in enumerate(rows):
            if not (row.slate.shown or context.empty):
                continue
            item = StudyItem.of(row.slate, category=row.question.category)
            items.setdefault(item.id, item)
            user = user_key(row.question.user_id)
            users.setdefault(item.id, set()).update((user, *strangers[k]))
            chosen = row.slate.candidates[rows.chosen_position(k)]
            gold.append(
                GoldRow(
                    item=item.id,
                    context=context.spec,
                    row=rows.id(k),
                    chosen="first" if chosen == item.answers[0] else "second",
                    user=user,
                )
            )
    if not items:
        raise UsageError(f"{dataset.name}: no row has anything to show; add -c none")
    # In the order of hashes nothing can be read of the rows.
    whole = [
        items[name].model_copy(update={"users": tuple(sorted(users[name]))})
        for name in sorted(items)
    ]
    return whole, gold


def _strangers(dataset: Dataset, rows: ContextRows, seed: int) -> Iterator[list[str]]:
    """Yield the keys of the strangers whose texts each row may show."""
    if shows(rows.context.spec) != "stranger":
        yield from ([] for _ in range(len(rows)))
        return
    pools, needs = dataset.user_pools(seed), getattr(rows.context, "needs", ())
    for k in range(len(rows)):
        question = rows.questions[k // rows.draws]
        pool = pools[question.subset].at(question.id, question.user_id, k % rows.draws)
        users = [pool.stranger(of) for of in ("posts", "choices") if of in needs or not needs]
        yield [user_key(user.id) for user in users if user is not None]
