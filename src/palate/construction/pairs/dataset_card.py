"""The card of a data set of pairs: how they were made, what was dropped, what nobody checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

from palate.construction.pairs.result import PairsSummary
from palate.specs import Spec

CARD = "README.md"
TAGS = ["palate", "preference", "personalization", "synthetic"]
SIZES = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K"}
SPECS = {"reader", "writers", "adherence", "blind"}
NOT_OPTIONS = {"benchmark", "name", "fingerprints"}


def card_of(
    summary: PairsSummary,
    identity: Mapping[str, Any],
    *,
    licence: str | None,
    attributed: int,
) -> str:
    """Return the card as Markdown with metadata that a hub reads.

    `identity` is the manifest's, `attributed` the rows whose authors are
    named.
    """
    from huggingface_hub import DatasetCard, DatasetCardData

    size = next((name for most, name in SIZES.items() if summary.pairs < most), "100K<n<1M")
    data = DatasetCardData(
        license=licence, pretty_name=summary.benchmark, tags=TAGS, size_categories=[size]
    )
    unused = frozenset() if identity["adherence"] else {"gap"}
    options = {
        name.replace("_", " "): _words(value, name in SPECS)
        for name, value in identity.items()
        if name not in NOT_OPTIONS | unused and value not in (None, False, [], ())
    }
    template = files(__package__).joinpath("dataset_card.jinja").read_text(encoding="utf-8")
    card = DatasetCard.from_template(
        data,
        template_str=template,
        summary=summary,
        options=options,
        writers={_public(spec): n for spec, n in summary.writers.items()},
        findings=[*_findings(summary)],
        licence=licence,
        attributed=attributed,
    )
    return f"{card}\n"


def _findings(summary: PairsSummary) -> Iterator[str]:
    audited = summary.audit
    if audited is None:
        return
    for check in audited.checks:
        of = f"{check.n_failed} of {check.n_checked} written rows fail"
        unseen = check.name in audited.unseen
        counts = "; it is not shown to see, and counts for nothing" if unseen else ""
        yield f"`{check.name}`: " + (f"needs {check.needs}" if check.needs else f"{of}{counts}")
    for gap in audited.gaps:
        yield f"Gaps of {gap.n_above} of {gap.n} written {gap.of} are above {gap.limit}."
    for sight in audited.sights:
        sees = f"`{sight.filter}` prefers its text to {sight.other}"
        yield f"{sees}: {sight.won} of {sight.n} times, {sight.finding}."
    if not summary.without_user:
        yield "Length and style are at ½ by law: each response is chosen once and rejected once."
    for finding in summary.without_user:
        yield f"`{finding.scorer}` without the user: {finding.accuracy.value}; {finding.words}."
    for filtered_by in filter(None, (audited.adherence, audited.blind)):
        yield f"`{_public(filtered_by)}` chose these pairs: its own figures on them prove nothing."


def _words(value: object, is_spec: bool) -> str:
    values = value if isinstance(value, list | tuple) else [value]
    return ", ".join(_public(str(each)) if is_spec else str(each) for each in values)


def _public(spec: str) -> str:
    """Return a spec without the address of an endpoint."""
    return str(Spec.parse(f"model:{spec}").having(base_url=None)).removeprefix("model:")
