"""palate bench refuses what cannot be measured."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from palate.cli import app
from palate.errors import PalateError


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--decoding", "--plot", "x.png"), "leave out --decoding"),
        (("--only", "no such"), "--only no such: no case is named so"),
    ],
)
def test_what_cannot_be_measured_is_refused(words, says):
    done = CliRunner().invoke(app, ["bench", *words])
    assert isinstance(done.exception, PalateError)
    assert says in str(done.exception)
