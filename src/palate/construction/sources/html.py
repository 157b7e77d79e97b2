"""HTML of posts as plain text: Markdown without links and pictures, formulas left as TeX."""

from __future__ import annotations

from palate.errors import needing


def text_of_html(html: str) -> str:
    """Return the text of a post; raises `UsageError` without markdownify.

    Elements that are nested too deeply for Markdown give their bare text.

    >>> text_of_html("<p>Is <a href='x'>this</a> $a_1*b_2*$?</p><pre><code>H(q)</code></pre>")
    'Is this $a_1*b_2*$?\\n\\n```\\nH(q)\\n```'
    """
    with needing("posts in HTML need", "hub"):
        from bs4 import BeautifulSoup
        from markdownify import ATX, markdownify
    try:
        # Escapes would break formulas.
        text: str = markdownify(
            html,
            escape_asterisks=False,
            escape_underscores=False,
            heading_style=ATX,
            strip=["a", "img"],
        )
    except RecursionError:
        text = BeautifulSoup(html, "html.parser").get_text()
    return text.strip()
