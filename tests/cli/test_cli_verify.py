"""palate verify, palate export hub and palate compare --fail-if-worse, as typed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from command_line import palate
from palate.comparison import evaluate
from palate.evaluation import summarise
from palate.records import Outcome
from palate.runs import Manifest, Run, VerdictRow, Verdicts

HASH = VerdictRow.hash_of
HUB = "classifier:hub:ORG/MODEL"


def save(root: Path, scorer: str, right: list[bool], **facts: object) -> Run:
    """Save a run of these verdicts, of rows that all such runs share."""
    verdicts = Verdicts(
        VerdictRow(
            id=f"r{k}", content_hash=f"c{k}", question_hash=HASH(f"q{k}"),
            response_hashes=(HASH(f"a{k}"), HASH(f"b{k}")), user=f"u{k % 40}", subset="all",
            mirror_of=None, outcome=Outcome.CHOSEN if hit else Outcome.REJECTED,
            margin=1.0 if hit else -1.0, lengths=(5, 6),
        )
        for k, hit in enumerate(right)
    )  # fmt: skip
    summary = summarise(verdicts, benchmark="b", scorer=scorer, context="none", **facts)
    identity = {"benchmark": "b", "scorer": scorer, "context": "none", "revision": "abc"}
    written = Manifest(kind="run", identity=identity)
    run = Run(summary, verdicts, written.folder(root))
    assert run.folder is not None
    written.write(run.folder)
    run.save()
    return run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    good = [k % 10 > 0 for k in range(200)]
    save(tmp_path / "a", f"{HUB}-a@v1", good)
    save(tmp_path / "same", f"{HUB}-same", good)
    save(tmp_path / "b", f"{HUB}-b", [k % 2 > 0 for k in range(200)])
    save(tmp_path / "near", f"{HUB}-near", [*good[:-1], not good[-1]])
    save(tmp_path / "few", f"{HUB}-few", good[:50])
    return tmp_path


@pytest.mark.parametrize(
    ("others", "standard", "code", "line"),
    [
        (["same"], "a", 0, ""),
        (["near"], "a", 0, ""),
        (["b"], "a", 1, "MODEL-b is worse than classifier:hub:ORG/MODEL-a@v1 under none by 0.400"),
        (["b"], "b", 0, ""),
        (["b", "same"], "same", 1, "MODEL-b is worse than"),
        (["few"], "a", 2, "share 50 of 200 pairs"),
        (["b"], "same", 2, "expected one of the runs that are compared"),
        (["b"], "nowhere", 2, "no such folder"),
    ],
)
def test_compare_fails_where_another_scorer_is_shown_to_be_worse(
    others: list[str], standard: str, code: int, line: str, runs: Path
) -> None:
    done = palate("compare", "a", *others, "--fail-if-worse", standard, cwd=runs)
    assert (done.returncode, line in done.stderr) == (code, True), done.stderr
    assert bool(done.stdout) == (code < 2)


def test_verify_prints_a_line_for_each_run_and_exits_by_the_worst(tmp_path: Path) -> None:
    folder = evaluate("tasting", "longest", "none", root=tmp_path / "runs").folder
    assert folder is not None
    done = palate("verify", "runs", "--rescore", "96", "--strict", cwd=tmp_path)
    assert (done.returncode, "not checked" in done.stdout) == (0, False), done.stdout
    done = palate("verify", "runs", "--rescore", "5", "--strict", cwd=tmp_path)
    assert (done.returncode, "1 passed, 0 refused" in done.stdout) == (1, True)
    done = palate("verify", "runs", "--rescore", "5", "--seed", "7", cwd=tmp_path)
    where = folder.relative_to(tmp_path)
    assert done.stdout.splitlines()[:3] == [f"passed   {where}: 96 rows", "", "1 passed, 0 refused"]
    assert "rows that were not drawn" in done.stdout
    assert done.returncode == 0
    other = tmp_path / "runs" / "tasting" / "other"
    shutil.copytree(folder, other)
    text = (folder / "rows.jsonl").read_text(encoding="utf-8")
    (folder / "rows.jsonl").write_text(text.replace('"chosen"', '"rejected"'), encoding="utf-8")
    done = palate("verify", "runs", cwd=tmp_path)
    assert done.returncode == 1
    assert f"refused  {where}/rows.jsonl:" in done.stdout
    assert f"more of {where}\n" in done.stdout
    assert "refused  runs/tasting/other/manifest.json: is the manifest of" in done.stdout
    assert "0 passed, 2 refused" in done.stdout
    kind = json.loads((other / "manifest.json").read_text(encoding="utf-8")) | {"kind": "validity"}
    (other / "manifest.json").write_text(json.dumps(kind), encoding="utf-8")
    done = palate("verify", "runs", cwd=tmp_path)
    assert "not checked: runs/tasting/other, a result of another kind than runs" in done.stdout


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("nowhere",), "nowhere: no run at or under this folder"),
        ((".", "--rescore", "-1"), "--rescore -1: expected a number of rows"),
        ((".", "-b", "none.jsonl"), "none.jsonl: no such file"),
        ((".", "-b", "nothing"), "nothing"),
    ],
)
def test_what_verify_cannot_read_is_one_line(words: tuple[str, ...], line: str, runs: Path) -> None:
    done = palate("verify", *words, cwd=runs)
    assert (done.returncode, done.stdout) == (2, "")
    assert line in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_hub_reads_back_what_is_exported(runs: Path) -> None:
    hub, yaml = pytest.importorskip("huggingface_hub"), pytest.importorskip("yaml")
    save(runs / "local", "longest", [True] * 200)
    save(runs / "oracle", f"{HUB}-b?window=64", [True] * 200, oracle=True)
    words = ("export", "hub", "a", "b", "local", "oracle", "-o", "out", "--dataset", "ORG/tea")
    done = palate(*words, cwd=runs)
    assert done.returncode == 0, done.stderr
    assert "longest under none" in done.stdout.splitlines()[-1]
    assert f"{HUB}-b?window=64" in done.stdout.splitlines()[-1]
    files = sorted((runs / "out").rglob(".eval_results/*.yaml"))
    assert [file.parts[-3:] for file in files] == [
        (f"ORG--MODEL-{name}", ".eval_results", "b.yaml") for name in "ab"
    ]
    for file, value in zip(files, (0.9, 0.5), strict=True):
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
        (entry,) = hub.parse_eval_result_entries(document)
        assert hub.eval_result_entries_to_yaml([entry]) == document
        assert (entry.dataset_id, entry.task_id, entry.value) == ("ORG/tea", "none", value)
        assert (entry.dataset_revision, entry.source_url) == ("abc", None)
        assert "accuracy of 200, 95 % interval 0." in entry.notes
    declared = yaml.safe_load((runs / "out" / "eval.yaml").read_text(encoding="utf-8"))
    assert declared["tasks"] == [{"id": "none", "config": "default", "split": "test"}]
    assert palate(*words, cwd=runs).returncode == 0
    files[0].write_text("mine: 1\n", encoding="utf-8")
    before = files[1].stat().st_mtime_ns
    done = palate(*words, cwd=runs)
    assert (done.returncode, files[0].read_text(encoding="utf-8")) == (2, "mine: 1\n")
    assert f"out/{files[0].relative_to(runs / 'out')}: is there and is not palate's" in done.stderr
    assert files[1].stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("a", "-o", "out", "--dataset", "tea"), "--dataset tea: expected ORG/NAME"),
        (("local", "-o", "out", "--dataset", "ORG/tea"), "no run is of a model on the hub"),
        (("nowhere", "-o", "out", "--dataset", "ORG/tea"), "no such folder"),
    ],
)
def test_what_is_not_exported_is_one_line(words: tuple[str, ...], line: str, runs: Path) -> None:
    save(runs / "local", "longest", [True] * 200)
    done = palate("export", "hub", *words, cwd=runs)
    assert (done.returncode, line in done.stderr) == (2, True), done.stderr
    assert not (runs / "out").exists()
