"""From a spec to a measure of quality."""

from __future__ import annotations

from collections.abc import Sequence

from palate.errors import SpecError
from palate.quality.protocol import QualityMetric
from palate.records import Settings
from palate.session import Session
from palate.specs import Spec, load

GROUP = "palate.qualities"


def build_qualities(
    given: Sequence[str | QualityMetric], session: Session, settings: Settings
) -> list[QualityMetric]:
    """Return each measure once, built where it is a spec; raises as `build_quality`."""
    return [
        build_quality(measure, session, settings) if isinstance(measure, str) else measure
        for measure in dict.fromkeys(given)
    ]


def build_quality(spec: str, session: Session, settings: Settings | None = None) -> QualityMetric:
    """Build what a spec names: palate's own or an installed package's.

    What is registered under `palate.qualities` is called with (spec, session, settings).
    Raises `SpecError` naming the near misses where nothing has this name.
    """
    parsed = Spec.parse(spec)
    measure = load(GROUP, parsed.kind)(parsed, session, settings or Settings())
    if not isinstance(measure, QualityMetric):
        wanted = "spec, fingerprint, needs, surrogate, details, check() and rate()"
        raise SpecError(
            f"{spec}: {type(measure).__name__} is no measure of quality; it needs {wanted}"
        )
    return measure
