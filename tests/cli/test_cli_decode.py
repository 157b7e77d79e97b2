"""palate decode, as a user types it, and what validity makes of its results."""

from __future__ import annotations

import json

import pytest

from command_line import run, write_rows
from palate.answers import drawing as gathering
from palate.errors import BenchmarkError, ModelError, SpecError, UsageError
from palate.runs import load_all, read_manifest

pytestmark = pytest.mark.usefixtures("cache")
WORDS = ("tea", "coffee", "milk", "water")
CHRF = ("-q", "overlap:chrf")


def write(file, **changes):
    """Write two questions of each of four users, who have posts."""
    rows = [
        {
            "id": f"{user}-{k}", "user_id": f"u{user}", "question": f"Drink {k} of {user}?",
            "chosen": f"{word} please", "rejected": "nothing",
            "reference": f"I drink {word} with a little sugar.",
            "profile": [{"id": f"p{user}", "text": f"Yesterday I drank {word} at home."}],
            **{name: value for name, value in changes.items() if user == 0 or name == "all"},
        }
        for user, word in enumerate(WORDS) for k in (5, 7)
    ]  # fmt: skip
    return write_rows(file, rows)


@pytest.fixture
def questions(tmp_path):
    return write(tmp_path / "drinks.jsonl")


def test_from_questions_to_validity(questions, tiny, tmp_path):
    model, rewards = tiny.model(), tiny.classifier()
    guides = ("-s", f"autoregressive:{model}", "-s", f"likelihood:{model}")
    wish = (
        "decode", "-b", questions, "-p", f"{model}?max_tokens=6", *guides, "--method", "genarm",
        "--weight", 0.5, "--weight", 1, "-c", "profile:1", "-c", "stranger:1", "-n", 2, *CHRF,
        "-o", tmp_path / "runs",
    )  # fmt: skip
    table = run(*wish)
    assert "over stranger [95 %]" in run(*wish, "--format", "markdown")
    assert "did guidance act?" in table
    assert "2 answers to each of 8 rows by" in table
    assert max(len(line) for line in table.splitlines() if line[:1].strip()) <= 100
    said = json.loads(run(*wish, "--format", "json"))
    (result,) = load_all(tmp_path / "runs", "decode")
    assert said == result.document()
    assert str(result).rstrip() == table.rstrip()
    cells = result.summary.cells
    assert len(cells) == 8
    shown = [cell for cell in cells if cell.context == "profile:1"]
    assert {cell.weight for cell in shown} == {0.5, 1.0}
    for cell in cells:
        (quality,) = cell.qualities
        assert (quality.identity_gain is None) == (cell.context != "profile:1")
        assert cell.guiding.divergence > 0
        assert cell.guiding.tokens["policy"] == cell.guiding.tokens["guide"]
        assert quality.p_holm >= quality.gain.p
    inputs = read_manifest(result.folder).inputs
    assert inputs["samples"] == result.summary.samples
    run("evaluate", "-b", questions, *guides, "-c", "profile:1", "-c", "stranger:1", "-o",
        tmp_path / "runs")  # fmt: skip
    text = run("validity", tmp_path / "runs")
    assert "guided by genarm 0.5 · 2 answers by" in text
    kept = load_all(tmp_path / "runs", "validity")[0].summary.coefficients
    answers = {one.downstream.answers for one in kept}
    assert answers == {"guided by genarm 0.5", "guided by genarm 1"}
    assert all(len(one.scorers) == 4 for one in kept)
    run("report", tmp_path / "runs", "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Answers that a scorer guides" in page
    assert str(tmp_path) not in page
    assert model not in page
    segments = run(
        "decode", "-b", questions, "-p", f"{model}?max_tokens=6", "-s", f"classifier:{rewards}",
        "--method", "args?k=3", "--method", "blocks?K=2&length=3",
        "--method", "rejection?length=3&retries=2", "-n", 2, *CHRF, "-o", tmp_path / "other",
    )  # fmt: skip
    for method in ("args?k=3 1", "blocks?k=2&length=3", "rejection?length=3&retries=2"):
        assert method in segments
    (other,) = load_all(tmp_path / "other", "decode")
    args, blocks, rejection = (cell.guiding for cell in other.summary.cells)
    assert args.tokens["guide"] == pytest.approx(3 * args.tokens["policy"])
    assert blocks.divergence is None
    assert blocks.divergence_bound > 0
    assert rejection.divergence is None is rejection.divergence_bound


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        (("--method", "genarn"), UsageError, "did you mean genarm"),
        (("--method", "genarm?k=1"), SpecError, "unknown option 'k'"),
        (("--method", "genarm", "--weight", "nan"), UsageError, "^--weight nan"),
        (("--method", "genarm", "--weight", "inf"), UsageError, "^--weight inf"),
        (("--method", "args", "--weight", "-1"), UsageError, "^weight -1: expected 0 or more"),
        (("--method", "args", "--weight", "nan"), UsageError, "^--weight nan"),
        (("--method", "args?k=0"), SpecError, "k='0' is not a whole number of 1 or more"),
        (("--method", "blocks?K=0"), SpecError, "k='0' is not a whole number of 1 or more"),
        (("--method", "blocks?length=0"), SpecError, "length='0'"),
        (("--method", "blocks", "--weight", "1"), UsageError, "blocks takes no weight"),
        (("--method", "rejection?retries=0"), SpecError, "retries='0'"),
        (("--method", "rejection?quantile=1"), UsageError, "between 0 and 1"),
        (("--method", "rejection?beta=0"), SpecError, "beta='0' is not a number above 0"),
        (("--method", "genarm", "-n", "0"), UsageError, "-n 0: expected 1 or more"),
        (("--method", "genarm", "--contrast"), UsageError, "needs mirrored couples"),
        (("--method", "proxy"), UsageError, "is no difference of two models"),
        (("--method", "genarm", "-c", "stranger:1?draws=2"), UsageError, "decode: .*no draws"),
        (
            ("--method", "genarm", "-s", "longest"),
            UsageError,
            "tokens; take palate decode .*blocks",
        ),
        (("--method", "args", "-s", "longest"), UsageError, "texts only; take palate decode"),
    ],
)
def test_bad_wishes_are_one_line_before_anything_is_drawn(
    questions, tiny, words, error, said, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        gathering, "draw_samples", lambda *_, **__: pytest.fail("something was drawn")
    )
    guide = () if "-s" in words else ("-s", f"autoregressive:{tiny.model()}")
    with pytest.raises(error, match=said) as caught:
        run("decode", "-b", questions, "-p", tiny.model(), *CHRF, *guide, *words)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
    assert not (tmp_path / "runs").exists()


def test_guides_that_cannot_be_are_one_line(questions, tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = tiny.model()
    other = tiny.model(tokenizer={"eos_token": "<|endoftext|>"}, eos_token_id=0)
    small = tiny.model(max_position_embeddings=64)
    endpoint = "api:m?base_url=http://127.0.0.1:9/v1"
    genarm = ("--method", "genarm", "-s", f"autoregressive:{model}")
    for error, said, *words in (
        (UsageError, "an endpoint's tokens cannot be guided", "-p", endpoint, *genarm),
        (UsageError, "have other end tokens", "-p", model, "--method", "genarm",
         "-s", f"autoregressive:{other}"),
        (UsageError, "rewards no single tokens", "-p", model, "--method", "genarm",
         "-s", f"rating:{endpoint}"),
        (UsageError, "compares two answers", "-p", model, "--method", "blocks",
         "-s", f"judge:{model}"),
        (UsageError, "is a difference of models", "-p", model, "--method", "pad",
         "-s", f"implicit:{model}?reference={model}"),
        (ModelError, "too long", "-p", f"{model}?max_tokens=1000", *genarm),
        (UsageError, "longer than its window", "-p", f"{model}?max_tokens=40", "--method", "genarm",
         "-s", f"autoregressive:{small}"),
    ):  # fmt: skip
        with pytest.raises(error, match=said) as caught:
            run("decode", "-b", questions, *CHRF, *words)
        assert "\n" not in str(caught.value)
        assert caught.value.exit_code == 2


def test_users_without_a_text_or_a_reference_are_named(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = tiny.model()
    wish = ("-p", model, "--method", "genarm", "-s", f"autoregressive:{model}", *CHRF)
    silent = write(tmp_path / "silent.jsonl", profile=[])
    for context in ("profile:1", "stranger:1"):
        with pytest.raises(UsageError, match=r"1 users have nothing that .* could show \(u0\)"):
            run("decode", "-b", silent, *wish, "-c", context)
    bare = write(tmp_path / "bare.jsonl", reference="")
    with pytest.raises(BenchmarkError, match="2 of 8 rows"):
        run("decode", "-b", bare, *wish)
