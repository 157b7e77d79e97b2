"""Text as HTML: what would act, hide or turn the line around is no text."""

from __future__ import annotations

from markupsafe import Markup, escape

from palate.reports.printable import printable


def to_html(value: object) -> Markup:
    """Return a value as escaped HTML; what is HTML already stays.

    >>> to_html("<b>"), to_html(Markup("<b>"))
    (Markup('&lt;b&gt;'), Markup('<b>'))
    """
    if hasattr(value, "__html__"):
        return Markup(value.__html__())
    return escape(printable(str(value)))
