"""The people of a study as a judge, so that they stand in one table with reward models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from palate.errors import UsageError
from palate.records import Judgement, ScorerInfo, Settings, Slate
from palate.records.arguments import grouped
from palate.seeding import digest
from palate.session import Session
from palate.specs import Spec
from palate.study.answers import read_answers
from palate.study.panels import SIDES, counted
from palate.study.records import StudyItem, read_study

EXAMPLE = "people:STUDY"
NOBODY = "nobody answered"


class People:
    """The people of a study, asked about exactly what a scorer is shown.

    The share of answers that prefer a response; *no difference* counts half for each.

    `?raters=all` also counts those who failed too many checks. Checks, skipped items and what was
    asked again do not count. Rows, contexts and seed must be those that the study was planned with.
    """

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        spec.only(("raters",))
        everybody = spec.choice("raters", ("kept", "all"), "kept") == "all"
        self.canonical = str(spec.having(raters="all" if everybody else None))
        study = read_study(Path(spec.need_reference(EXAMPLE)))
        self.known, self.folder = {*study.plan.items, *study.plan.left_out}, study.folder
        pairs = counted(read_answers(study))
        votes = [answer for answer in pairs if everybody or not answer.excluded]
        of_item = grouped(votes, lambda answer: answer.item)
        self.votes = {item: [SIDES[it.choice] for it in of] for item, of in of_item.items()}
        counted_votes = sorted((answer.item, answer.rater, answer.choice) for answer in votes)
        people = len({answer.rater for answer in votes})
        excluded = len({answer.rater for answer in pairs if answer.excluded})
        left = f"; {excluded:,} who failed checks {'count too' if everybody else 'are left out'}"
        self.info = ScorerInfo(
            fingerprint=digest("people", study.plan.hash, counted_votes),
            exact=True,
            pairs_only=True,
            # Such a row is an item of `none`, whose raters were asked something else.
            skips_unshown=True,
            votes=True,
            notes=(f"{len(votes):,} answers of {people:,} people{left if excluded else ''}",),
            details={"plan": study.plan.hash, "answers": len(votes), "excluded": excluded},
        )

    def judge(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Judgement]]:
        """Yield the share of the first candidate less that of the second.

        A plan leaves out rows that have nothing to show under a context with posts. Raises
        `UsageError` for any other slate that is no item of the plan.
        """
        for k, slate in enumerate(slates):
            item = StudyItem.of(slate)
            if item.id not in self.known:
                raise UsageError(
                    f"people:{self.folder}: a row is no item of its plan; take the data, contexts "
                    "and seed that it was planned with"
                )
            side = 1 if slate.candidates[0] == item.answers[0] else -1
            if votes := self.votes.get(item.id):
                yield k, Judgement(margin=side * sum(votes) / len(votes))
            else:
                yield k, Judgement(margin=None, reason=NOBODY)
