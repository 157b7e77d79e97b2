"""What the tables of guided decoding say of rows and answers."""

from types import SimpleNamespace

import pytest

from palate.reports.decode import answers_phrase


@pytest.mark.parametrize(
    ("n", "mirrors", "told"),
    [
        (1, None, "1 answer to each of 8 rows"),
        (4, [1, 0] * 4, "4 answers to each of 8 rows (4 mirrored couples)"),
    ],
)
def test_answers_and_rows_are_counted_as_what_they_are(n, mirrors, told):
    result = SimpleNamespace(summary=SimpleNamespace(n=n), rows=range(8), mirrors=mirrors)
    assert answers_phrase(result) == told
