"""When two texts are one text, and two names one name."""

from __future__ import annotations

from unicodedata import normalize

from palate.errors import DataError


def normal_form(text: str) -> str:
    r"""Return a text's form for matching: Unicode's NFC, each run of white space as one blank.

    Line ends are white space; at both ends there is none. Nobody is shown this form.

    >>> normal_form("Ne\u0301e\r\n in  Tea. ") == normal_form("N\u00e9e\nin Tea.")
    True
    """
    plain = " ".join(text.split())
    return plain if plain.isascii() else normalize("NFC", plain)


class DistinctNames:
    """Names in use, by what they name; no two may differ in nothing but their form."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], tuple[str, str]] = {}

    def add(self, what: str, name: str, where: str) -> None:
        """Note a name and where it stands; raises `DataError` where another has its normal form.

        >>> names = DistinctNames()
        >>> names.add("user", "ana", "row 1")
        >>> names.add("user", "ana ", "row 7")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        palate.errors.DataError: the user 'ana' (row 1) and the user 'ana ' (row 7) differ in ...
        """
        other, there = self._first.setdefault((what, normal_form(name)), (name, where))
        if other != name:
            raise DataError(
                f"the {what} {other!a} ({there}) and the {what} {name!a} ({where}) differ in "
                "nothing but white space or the form of accents; write both alike"
            )
