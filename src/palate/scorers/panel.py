"""The members that a file names, each as it is by itself; and a judge that is made of judges."""

from __future__ import annotations

import tomllib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

from palate.errors import SpecError
from palate.records import (
    Judge,
    Judgement,
    Record,
    ScorerInfo,
    Settings,
    Slate,
    components_of,
    info_of,
    problem_of,
)
from palate.records.slates import sign
from palate.scorers.from_spec import build_scorer, spec_of
from palate.seeding import digest
from palate.session import Session
from palate.specs import Spec, unpinned

T = TypeVar("T")


class MembersFile(Record):
    """What a file of members says: their specs, by name where they have one."""

    members: tuple[str, ...] | dict[str, str]


class PanelFile(MembersFile):
    """What the file of a panel says."""

    by: Literal["majority", "share", "margin"]


class NamedMember(NamedTuple):
    """One scorer or judge of several, and what it is called among them."""

    name: str
    spec: str
    scorer: Any
    info: ScorerInfo


class Company(ABC):
    """The members of a panel's or mix's file; each shares what is cached with the whole."""

    judges: ClassVar[bool]
    """Whether members are judges, or scorers."""
    kind: ClassVar[type[MembersFile]]
    """What its file says."""

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        spec.only(())
        self.file, pin_named = unpinned(spec.need_reference(f"{spec.kind}:members.toml"))
        try:
            text = Path(self.file).expanduser().read_text(encoding="utf-8")
            self.content: Any = self.kind.model_validate(tomllib.loads(text))
        except (OSError, ValueError) as error:
            raise SpecError(f"{self.file}: {problem_of(error)}") from error
        listed = self.content.members
        pairs = [*listed.items()] if isinstance(listed, dict) else [(None, it) for it in listed]
        if not all(name is None or name.strip() for name, _ in pairs):
            raise SpecError(f"{self.file}: a member's name is empty")
        if len(pairs) < 2:
            raise SpecError(f"{self.file}: `members` names {len(pairs)}; expected 2 or more")
        by_print: dict[str, NamedMember] = {}
        for name, text in pairs:
            where = f"{self.file}: member {name or text!r}" + f" ({text})" * (name is not None)
            member = _built(name, text, where, session, settings, judges=self.judges)
            first = by_print.setdefault(member.info.fingerprint, member)
            if first is not member:
                raise SpecError(f"{where} is the same scorer as {first.name!r}; leave one out")
        self.members = tuple(by_print.values())
        rule = self.content.model_dump(mode="json", exclude={"members"}, exclude_none=True)
        pin = digest(spec.kind, rule, [(it.name, it.spec) for it in self.members])[:8]
        if pin_named not in (None, pin):
            raise SpecError(f"{spec}: {self.file} says something else now: it is @{pin}")
        self.canonical = str(spec.model_copy(update={"reference": f"{self.file}@{pin}"}))
        every = [part for member in self.members for part in components_of(member.scorer)]
        self.components = tuple(dict.fromkeys(every))

    def of_members(self, parts: Sequence[T]) -> list[tuple[NamedMember, list[T]]]:
        """Return each member with what is its own of what the computations gave."""
        by = dict(zip(self.components, parts, strict=True))
        return [(it, [by[part] for part in components_of(it.scorer)]) for it in self.members]

    def combine(self, parts: Sequence[Any]) -> Any:
        """Return what the whole makes of what the computations gave."""
        pairs = self.of_members(parts)
        return self.joined([getattr(m.scorer, "combine", itemgetter(0))(it) for m, it in pairs])

    @abstractmethod
    def joined(self, given: Sequence[Any]) -> Any:
        """Return what the whole makes of what each member gave."""

    def each(self, method: str, slates: Sequence[Slate]) -> Iterator[tuple[int, Any]]:
        """Yield what the whole makes of each slate; every member goes through all of them."""
        given = [dict(getattr(member.scorer, method)(slates)) for member in self.members]
        for k in range(len(slates)):
            yield k, self.joined([of_member[k] for of_member in given])

    def reason(self, lost: Iterable[str | None]) -> str | None:
        """Return why the whole is unscored, by the reasons of its members, where some have one."""
        both = zip(self.members, lost, strict=True)
        return "; ".join(f"{member.name}: {why}" for member, why in both if why) or None

    def info_of(self, what: str, *also: object, **more: object) -> ScorerInfo:
        """Return the info of the whole; `what` and `also` are what it depends on beside members."""
        infos = [member.info for member in self.members]
        either = ("needs_shown", "skips_unshown", "cuts", "pairs_only")
        about: dict[str, Any] = {name: any(getattr(it, name) for it in infos) for name in either}
        about["fingerprint"] = digest(what, [info.fingerprint for info in infos], *also)
        return ScorerInfo(**{**about, "exact": all(info.exact for info in infos), **more})

    def prompts(self, slate: Slate) -> list[str]:
        """Return what the members read, where they say it."""
        some = (it.scorer for it in self.members if hasattr(it.scorer, "prompts"))
        return [text for scorer in some for text in scorer.prompts(slate)]

    def notes(self) -> tuple[str, ...]:
        """Return what members note, each with its name."""
        noted: list[tuple[str, ...]] = [
            (it.name, *it.info.notes, *getattr(it.scorer, "notes", tuple)()) for it in self.members
        ]
        return tuple(f"{name}: {note}" for name, *notes in noted for note in notes)


def _built(
    name: str | None, text: str, where: str, session: Session, settings: Settings, *, judges: bool
) -> NamedMember:
    """Build one member; raises `SpecError` where it cannot be one."""
    try:
        if _names_members(Spec.parse(text)):
            raise SpecError("it is made of members itself; name those")
        scorer = build_scorer(text, session, settings)
    except SpecError as error:
        raise SpecError(f"{where}: {error}") from error
    info, canonical = info_of(scorer, text), spec_of(scorer, text)
    judge = "is a judge, which gives no answer a score; panel:FILE is made of judges"
    refused = {
        "is a scorer; mix:FILE adds scores": judges and not isinstance(scorer, Judge),
        judge: not judges and isinstance(scorer, Judge),
        "keeps a state for each user; members are the same for all of them": info.needs_user,
        f"has protocol={info.protocol}, of one judge alone": info.protocol != "palate",
    }
    for problem, holds in refused.items():
        if holds:
            raise SpecError(f"{where} {problem}")
    return NamedMember(name or canonical, canonical, scorer, info)


def _names_members(spec: Spec) -> bool:
    # Also where an option names such a file, as that of a guide.
    inner = (Spec.read(value) for value in spec.options.values())
    named = spec.kind in ("panel", "mix") and spec.reference is not None
    return named or any(_names_members(it) for it in inner if it is not None)


class JudgePanel(Company):
    """A judge made of judges, the members of a TOML file.

    By `majority` the response that more members prefer wins, with margin 1; by `share` a row counts
    the share of members that prefer it, ties one half; by `margin` the mean of the margins decides.
    A row that one member leaves unscored is unscored, with the member's name.
    """

    kind, judges = PanelFile, True

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        super().__init__(spec, session, settings)
        self.by = self.content.by
        odds = {member.info.log_odds: member.name for member in self.members}
        if self.by == "margin" and len(odds) > 1:
            raise SpecError(
                f"{self.file}: by = 'margin' adds margins of one unit; those of {odds[True]!r} are "
                f"log-odds and those of {odds[False]!r} votes"
            )
        kinds = {"votes": self.by == "share", "log_odds": self.by == "margin" and True in odds}
        self.info = self.info_of("panel", self.by, **{**kinds, "pairs_only": True})

    def judge(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Judgement]]:
        """Yield judgements."""
        return self.each("judge", slates)

    def joined(self, given: Sequence[Judgement]) -> Judgement:
        """Return the panel's judgement, of those of its members."""
        verdicts = [judgement.verdict(0) for judgement in given]
        if lost := self.reason(verdict.reason for verdict in verdicts):
            outage = any(judgement.outage for judgement in given)
            return Judgement(margin=None, reason=lost, outage=outage)
        by_margin = self.by == "margin"
        numbers = [(it.margin or 0.0) if by_margin else 2 * it.value - 1 for it in verdicts]
        mean = sum(numbers) / len(numbers)
        return Judgement(margin=float(sign(mean)) if self.by == "majority" else mean)
