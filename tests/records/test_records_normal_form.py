"""One normal form tells whether two texts, or two names, are one."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.errors import DataError
from palate.records import DistinctNames, normal_form


@given(st.text())
def test_the_normal_form_is_its_own_and_knows_no_white_space_or_accent_form(text: str) -> None:
    form = normal_form(text)
    assert normal_form(form) == form
    assert normal_form(f"\r\n{text}\t ") == form
    assert normal_form(text.replace(" ", "\u00a0\n")) == form
    for other in ("NFC", "NFD"):
        assert normal_form(unicodedata.normalize(other, text)) == form


def test_names_differ_in_more_than_their_form() -> None:
    names = DistinctNames()
    for name in ("ana", "Ana", "ann", "ana"):
        names.add("user", name, "row 1")
    names.add("row", "ana ", "row 2")
    with pytest.raises(DataError, match=r"the user 'ana' \(row 1\) and the user 'ana ' \(row 3\)"):
        names.add("user", "ana ", "row 3")


def test_forms_that_look_alike_are_spelt_out() -> None:
    names = DistinctNames()
    names.add("user", "Jos\u00e9", "row 1")
    with pytest.raises(DataError, match=r"'Jos\\xe9' \(row 1\) and the user 'Jose\\u0301'"):
        names.add("user", "Jose\u0301", "row 2")
