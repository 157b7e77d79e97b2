"""The members that a file names, each as it is by itself; and a judge that is made of judges."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from palate.errors import SpecError, first_line
from palate.records import (
    Component,
    Judge,
    Judgement,
    Outcome,
    Record,
    Scorer,
    ScorerInfo,
    Scores,
    Settings,
    Slate,
    components_of,
    info_of,
    prepared_slates,
    problem_of,
    results_of,
)
from palate.records.slates import sign
from palate.scorers.from_spec import build_scorer, spec_of
from palate.seeding import digest
from palate.session import Session
from palate.specs import Spec

PINNED = re.compile(r"(.+)@([0-9a-f]{8})\Z")
OF_MEMBERS = ("panel", "mix")
"""Kinds that a file of members makes."""
VOTES = {Outcome.CHOSEN: 1, Outcome.TIE: 0, Outcome.REJECTED: -1}
T = TypeVar("T")


class MembersFile(Record):
    """What a file of members says: their specs, by name where they have one."""

    members: tuple[str, ...] | dict[str, str]


F = TypeVar("F", bound=MembersFile)


class PanelFile(MembersFile):
    """What the file of a panel says."""

    by: Literal["majority", "share", "margin"]


class Member(NamedTuple):
    """One scorer or judge of several, and what it is called among them."""

    name: str
    spec: str
    """In its own spelling."""
    scorer: Any
    info: ScorerInfo


class Company(Generic[F]):
    """The members of a file, and what they have in common; panels and mixes are made of it.

    Every computation of a member is one of the whole, so members and whole share what is cached.
    """

    def __init__(
        self, spec: Spec, session: Session, settings: Settings, kind: type[F], *, judges: bool
    ) -> None:
        spec.only(())
        named = spec.need_reference(f"{spec.kind}:members.toml")
        pinned = None if Path(named).expanduser().is_file() else PINNED.match(named)
        self.file = pinned[1] if pinned else named
        self.content = _read(self.file, kind)
        self.members = self._built(spec.kind, session, settings, judges=judges)
        said = self.content.model_dump(mode="json", exclude={"members"}, exclude_none=True)
        pin = digest(spec.kind, said, [(it.name, it.spec) for it in self.members])[:8]
        if pinned and pinned[2] != pin:
            raise SpecError(f"{spec}: {self.file} says something else now: it is @{pin}")
        self.canonical = str(spec.model_copy(update={"reference": f"{self.file}@{pin}"}))
        every = (part for member in self.members for part in components_of(member.scorer))
        self.components: tuple[Component, ...] = tuple(dict.fromkeys(every))

    def of_member(self, member: Member, parts: Sequence[T]) -> list[T]:
        """Return, of what the computations gave, what is the member's."""
        by = dict(zip(self.components, parts, strict=True))
        return [by[part] for part in components_of(member.scorer)]

    def info_of(self, what: str, *also: object, **more: object) -> ScorerInfo:
        """Return the info of the whole; `what` and `also` are what it depends on beside members."""
        infos = [member.info for member in self.members]
        either = ("needs_shown", "skips_unshown", "cuts", "pairs_only")
        both = {name: any(getattr(info, name) for info in infos) for name in either}
        return ScorerInfo.model_validate(
            {
                "fingerprint": digest(what, [info.fingerprint for info in infos], *also),
                "exact": all(info.exact for info in infos),
                "notes": [f"{m.name}: {note}" for m in self.members for note in m.info.notes],
                "details": {member.name: member.info.details for member in self.members},
                **both,
                **more,
            }
        )

    def prompts(self, slate: Slate) -> list[str]:
        """Return what the members read, where they say it."""
        readers = [member.scorer for member in self.members if hasattr(member.scorer, "prompts")]
        return [text for scorer in readers for text in scorer.prompts(slate)]

    def notes(self) -> tuple[str, ...]:
        """Return what members note, each with its name."""
        some = [member for member in self.members if hasattr(member.scorer, "notes")]
        return tuple(f"{it.name}: {note}" for it in some for note in it.scorer.notes())

    def _built(
        self, kind: str, session: Session, settings: Settings, *, judges: bool
    ) -> tuple[Member, ...]:
        listed = self.content.members
        pairs = [*listed.items()] if isinstance(listed, Mapping) else [(it, it) for it in listed]
        if len(pairs) < 2:
            raise SpecError(f"{self.file}: `members` names {len(pairs)}; expected 2 or more")
        members: dict[str, Member] = {}
        for name, text in pairs:
            where = f"{self.file}: member {name!r}" + f" ({text})" * (name != text)
            if not name.strip() or not name.isprintable():
                raise SpecError(f"{where}: a name is a line of text")
            member = _built(name, text, where, session, settings, judges=judges)
            if isinstance(listed, tuple):
                member = member._replace(name=member.spec)
            first = members.setdefault(member.info.fingerprint, member)
            if first is not member:
                raise SpecError(f"{where} is the same scorer as {first.name!r}; leave one out")
            members[member.info.fingerprint] = member
        return tuple(members.values())


def _read(file: str, kind: type[F]) -> F:
    try:
        text = Path(file).expanduser().read_text(encoding="utf-8")
        return kind.model_validate(tomllib.loads(text))
    except OSError as error:
        raise SpecError(f"{file}: {error.strerror or first_line(error)}") from error
    except ValueError as error:
        raise SpecError(f"{file}: {problem_of(error)}") from error


def _built(
    name: str, text: str, where: str, session: Session, settings: Settings, *, judges: bool
) -> Member:
    """Build one member; raises `SpecError` where it cannot be one."""
    try:
        spec = Spec.parse(text)
        if _of_members(spec):
            raise SpecError("it is made of members itself; name those")
        scorer = build_scorer(text, session, settings)
    except SpecError as error:
        raise SpecError(f"{where}: {error}") from error
    if isinstance(scorer, Judge) is not judges:
        what = "a scorer" if judges else "a judge, which gives no answer a score"
        other = "mix:FILE adds scores" if judges else "panel:FILE is made of judges"
        raise SpecError(f"{where} is {what}; {other}")
    info = info_of(scorer, text)
    if info.needs_user:
        raise SpecError(
            f"{where} keeps a state for each user; members are the same for all of them"
        )
    if info.protocol != "palate":
        raise SpecError(f"{where}: protocol={info.protocol} is defined for one judge alone")
    return Member(name, spec_of(scorer, text), scorer, info)


def _of_members(spec: Spec) -> bool:
    # Also where an option names such a file, as that of a guide.
    inner = (Spec.read(value) for value in spec.options.values())
    named = spec.kind in OF_MEMBERS and spec.reference is not None
    return named or any(_of_members(it) for it in inner if it is not None)


class Panel(Company[PanelFile]):
    """A judge made of judges, the members of a TOML file.

    By `majority` the response that more members prefer wins, with margin 1; by `share` a row counts
    the share of members that prefer it, ties one half; by `margin` the mean of the margins decides.
    A row that one member leaves unscored is unscored, with the member's name.
    """

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        super().__init__(spec, session, settings, PanelFile, judges=True)
        self.by = self.content.by
        odds = {member.info.log_odds: member.name for member in self.members}
        if self.by == "margin" and len(odds) > 1:
            raise SpecError(
                f"{self.file}: by = 'margin' adds margins of one unit; those of {odds[True]!r} are "
                f"log-odds and those of {odds[False]!r} votes"
            )
        self.info = self.info_of(
            "panel",
            self.by,
            pairs_only=True,
            votes=self.by == "share",
            log_odds=self.by == "margin" and True in odds,
        )

    def combine(self, parts: Sequence[Judgement]) -> Judgement:
        """Return the panel's judgement, from what its computations gave."""
        given = [_combined(member.scorer, self.of_member(member, parts)) for member in self.members]
        verdicts = [judgement.verdict(0) for judgement in given]
        lost = [
            f"{member.name}: {verdict.reason}"
            for member, verdict in zip(self.members, verdicts, strict=True)
            if verdict.margin is None
        ]
        if lost:
            outage = any(judgement.outage for judgement in given)
            return Judgement(margin=None, reason="; ".join(lost), outage=outage)
        if self.by == "margin":
            numbers = [verdict.margin for verdict in verdicts if verdict.margin is not None]
        else:
            numbers = [float(VOTES[verdict.outcome]) for verdict in verdicts]
        mean = sum(numbers) / len(numbers)
        return Judgement(margin=float(sign(mean)) if self.by == "majority" else mean)

    def judge(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Judgement]]:
        """Yield judgements; every member goes through all slates."""
        yield from each_combined(self.components, slates, self.combine)


def _combined(scorer: Scorer | Judge, parts: Sequence[Any]) -> Any:
    combine: Callable[[Sequence[Any]], Any] | None = getattr(scorer, "combine", None)
    return parts[0] if combine is None else combine(parts)


def each_combined(
    components: Sequence[Component],
    slates: Sequence[Slate],
    combine: Callable[[Sequence[Any]], T],
) -> Iterator[tuple[int, T]]:
    """Yield what is made of every slate's results; every component goes through all slates."""
    results: list[dict[int, Scores | Judgement]] = []
    for scorer, without_context in components:
        asked = [slate.without_context() for slate in slates] if without_context else slates
        results.append(dict(results_of(scorer, prepared_slates(scorer, asked))))
    for k in range(len(slates)):
        yield k, combine([given[k] for given in results])
