"""Community Alignment (arXiv 2507.09650): choices among four responses to prompts many share."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence

from palate.benchmarks.ballots import Ballot, Row, cells, load_ballots
from palate.benchmarks.dataset import Dataset
from palate.benchmarks.registry import Benchmark
from palate.data import LoadOptions, forbidden_texts, holds, normal
from palate.errors import DataError
from palate.marks import DATA_END
from palate.records import Post, Question

LOG = logging.getLogger("palate")
REPOSITORY, FILE = "facebook/community-alignment-dataset", "community_alignment.csv"
PROMPT, PREFERRED = "first_turn_prompt", "first_turn_preferred_response"
NEEDED = ("conversation_id", "annotator_id", "assigned_lang", PROMPT, PREFERRED)
FEEDBACK = "first_turn_feedback"
RESPONSES = tuple(f"first_turn_response_{letter}" for letter in "abcd")
TRAITS = ("age", "gender", "education_level", "political", "ethnicity", "country")
COLUMNS = (*NEEDED, FEEDBACK, *RESPONSES, *(f"annotator_{trait}" for trait in TRAITS))


def _load(options: LoadOptions) -> Dataset:
    (file,), commit = options.files(REPOSITORY, [FILE])
    loaded = load_ballots(file, COLUMNS, _ballot, options)
    rows, account = tuple(_with_posts(loaded.rows)), loaded.account
    account.count(rows)
    return Dataset(BENCHMARK.name, rows, commit, loaded.bad_rows, account=account)


def _ballot(row: Row) -> Ballot:
    name, user, language, prompt, preferred = cells(row, *NEEDED)
    chosen = f"first_turn_{preferred}"
    if chosen not in RESPONSES:
        raise DataError(f"{preferred!r} is none of response_a to response_d", field=PREFERRED)
    columns = {
        "id": name,
        "user_id": user,
        "subset": language,
        "question": prompt.replace(DATA_END, ""),
        "narrative": _text(row, FEEDBACK),
        "traits": {trait.removesuffix("_level"): row.get(f"annotator_{trait}") for trait in TRAITS},
    }
    return columns, {column: (_text(row, column), None) for column in RESPONSES}, chosen


def _text(row: Row, column: str) -> str | None:
    text = (row.get(column) or "").replace(DATA_END, "")
    return text if text.strip() else None


def _with_posts(rows: Sequence[Question]) -> Iterator[Question]:
    """Give a conversation's rows (all the same) posts of other prompts, less what tells."""
    conversations: dict[str, list[Question]] = defaultdict(list)
    for row in rows:
        conversations[row.id.rpartition("-")[0]].append(row)
    wrote: dict[str, list[tuple[str, str, Post]]] = defaultdict(list)
    for name, (row, *_) in conversations.items():
        if (text := row.gold.narrative) is not None:
            wrote[row.user_id].append((row.normal_key, normal(text), Post(id=name, text=text)))
    left_out = 0
    for ballot in conversations.values():
        key, own = ballot[0].normal_key, normal(ballot[0].gold.narrative or "")
        telling = tuple({text for row in ballot for text in forbidden_texts(row.view)})
        others = [(text, post) for asked, text, post in wrote[ballot[0].user_id] if asked != key]
        posts = tuple(post for text, post in others if text != own and not holds(text, telling))
        left_out += len(others) - len(posts)
        yield from (row.model_copy(update={"profile": posts}) for row in ballot)
    if left_out:
        LOG.warning("%s: %d posts tell of another choice: left out there", BENCHMARK.name, left_out)


BENCHMARK = Benchmark(
    name="community-alignment",
    description="choices of 3,500 people among four responses; ten or more answered 2,500 prompts",
    loader=_load,
    licence="CC BY 4.0 (dataset card)",
    citation="Zhang, L. H., Milli, S. et al. (2025). Community Alignment. arXiv 2507.09650.",
)
