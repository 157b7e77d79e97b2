"""From a benchmark's rows under contexts to what people are asked: each slate is one item."""

from __future__ import annotations

from collections.abc import Sequence

from palate.benchmarks import Dataset
from palate.contexts import shows
from palate.errors import UsageError
from palate.evaluation import make_rows
from palate.records import Context, user_key
from palate.study.records import GoldRow, StudyItem


def make_items(
    dataset: Dataset, contexts: Sequence[Context], seed: int
) -> tuple[list[StudyItem], list[GoldRow], set[str]]:
    """Return an item for each slate, in the order of their hashes, and the rows behind them.

    A row that has nothing to show under a context that shows something is left out of it; the ids
    that such slates would have come last.

    Raises `BenchmarkError` for rows that are no pairs and a context without what it shows, and
    `UsageError` for a context that shows gold and where nothing is left to ask.
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
                strangers = [pool.stranger(of) for of in ("posts", "choices") if of in needs]
                of_item.update(user_key(other.id) for other in strangers if other is not None)
            side = "first" if item.answers[0] == pair.chosen else "second"
            row_id = rows.id(k)
            gold.append(
                GoldRow(item=item.id, context=context.spec, row=row_id, chosen=side, user=user)
            )
    if not items:
        raise UsageError(f"{dataset.name}: no row has anything to show; add -c none")
    whole = (items[name].model_copy(update={"users": (*sorted(users[name]),)}) for name in items)
    return sorted(whole, key=lambda item: item.id), gold, left_out
