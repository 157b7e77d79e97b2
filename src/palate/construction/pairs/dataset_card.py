"""The card of a data set of pairs: how they were made, what was dropped, what nobody checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from palate.construction.pairs.result import PairsSummary

CARD = "README.md"
TAGS = ["palate", "preference", "personalization", "synthetic"]
SIZES = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K"}
NOT_OPTIONS = {"benchmark", "fingerprints"}


def card_of(
    summary: PairsSummary,
    identity: Mapping[str, Any],
    findings: Sequence[str],
    *,
    licence: str | None,
    attributed: int,
) -> str:
    """Return the card as Markdown with metadata that a hub reads.

    `identity` is the manifest's, `findings` the audit's, `attributed` the rows whose authors are
    named.
    """
    from huggingface_hub import DatasetCard, DatasetCardData

    size = next((name for most, name in SIZES.items() if summary.pairs < most), "100K<n<1M")
    data = DatasetCardData(
        license=licence, pretty_name=summary.benchmark, tags=TAGS, size_categories=[size]
    )
    options = {
        name.replace("_", " "): _words(value)
        for name, value in identity.items()
        if name not in NOT_OPTIONS and value not in (None, False, [], ())
    }
    template = files(__package__).joinpath("dataset_card.jinja").read_text(encoding="utf-8")
    card = DatasetCard.from_template(
        data,
        template_str=template,
        summary=summary,
        options=options,
        findings=findings,
        licence=licence,
        attributed=attributed,
    )
    return f"{card}\n"


def _words(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
