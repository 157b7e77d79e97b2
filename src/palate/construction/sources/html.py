"""HTML of posts as plain text: Markdown without links and pictures, formulas left as TeX."""

from __future__ import annotations

from palate.errors import DataError, UsageError


def text_of_html(html: str, name: str) -> str:
    """Return the text of a post; raises `UsageError` without markdownify.

    `name` names the post where its elements are nested too deeply, which raises `DataError`.

    >>> text_of_html("<p>Is <a href='x'>this</a> $a_1*b_2*$?</p><pre><code>H(q)</code></pre>", "1")
    'Is this $a_1*b_2*$?\\n\\n```\\nH(q)\\n```'
    """
    try:
        from markdownify import ATX, markdownify
    except ImportError as error:
        raise UsageError("posts in HTML need pip install 'palate[hub]'") from error
    try:
        # Escapes would break formulas.
        text: str = markdownify(
            html,
            escape_asterisks=False,
            escape_underscores=False,
            heading_style=ATX,
            strip=["a", "img"],
        )
    except RecursionError as error:
        raise DataError(f"{name}: its HTML is nested too deeply; leave it out") from error
    return text.strip()
