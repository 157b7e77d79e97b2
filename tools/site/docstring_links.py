"""Names of pages and of public objects in docstrings become links."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe
from public_names import defined_in, public_names

REST = re.compile(r"^(Raises:\n(?: .*\n)*?) {4}(\w[^:\n]*\.)(?=\n|$)", re.MULTILINE)
"""The last line of a list of errors, where it is a sentence about further ones."""
EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


class DocstringLinks(griffe.Extension):
    """Links `` `docs/PAGE.md` `` to the page, and the name of a public object to its section."""

    def __init__(self, source: str) -> None:
        folder = Path(source)
        self.places = {
            name: defined_in(folder, module, name) for name, module in public_names(folder).items()
        }

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite an object's docstring when it has been read."""
        if obj.docstring is None:
            return
        text = REST.sub(r"\1\n\2", obj.docstring.value)
        text = EXAMPLE.sub(r"```pycon\n\g<0>\n```", text)
        text = re.sub(r"^Example:$", "Examples:", text, flags=re.MULTILINE)
        text = re.sub(r"`docs/(\w+)\.md`", r"[\1](\1.md)", text)
        obj.docstring.value = re.sub(r"(?<!\[)`([A-Z]\w+)`(?!\])", self._reference, text)

    def _reference(self, code: re.Match[str]) -> str:
        place = self.places.get(code[1])
        return f"[{code[0]}][{place}]" if place else code[0]
