"""What `tools/cover_on_shared.py` prints, and that it would notice intervals that do not hold."""

import gzip
import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import cover_of_equivalence
import cover_of_tax
import cover_on_shared
from cover_on_shared import ManyMeans, file_table, main, measured
from shared_designs import Design, file_designs, of_question, planted_design
from shared_scorers import Shares, World, kinds_for

from palate.benchmarks import load_benchmark
from palate.metrics import Clusters, Estimate, clustered_mean

USERS, QUESTIONS = 24, 6


@pytest.fixture(scope="module")
def votes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Votes of all users on one pair of each question, and of some on many pairs of one more."""
    rng = np.random.default_rng(0)
    rows = []

    def vote(user: int, question: int, first: str, second: str, share: float) -> None:
        chosen, rejected = (first, second) if rng.random() < share else (second, first)
        rows.append({
            "id": f"{len(rows)}", "user_id": f"u{user}", "question": f"Question {question}?",
            "chosen": chosen, "rejected": rejected, "split": "test",
        })  # fmt: skip

    for question in range(QUESTIONS):
        for user in range(USERS):
            vote(user, question, f"yes to {question}", f"no to {question}", 0.8)
    for user in range(USERS):
        for pair in range(9):
            vote(user, QUESTIONS, f"answer {pair}", f"answer {pair + 1}", 0.7)
    rows.append({**rows[0], "id": "past", "question": "Question of the past?", "split": "adapt"})
    path = tmp_path_factory.mktemp("votes") / "votes.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def designs(votes: Path, *, largest: bool = False) -> list[Design]:
    pairs = load_benchmark(str(votes)).select()
    if largest:
        rows = of_question(pairs.pairs, None)
        pairs = type(pairs)(pairs.name, tuple(rows)).select("all")
    return list(file_designs("votes", pairs))


def test_old_intervals_miss_and_new_ones_hold_on_a_file(votes: Path) -> None:
    rows, couples = designs(votes)
    assert len(rows.clusters) == USERS * (QUESTIONS + 9)
    assert couples.clusters.couples
    table = file_table([rows, couples], draws=200, processes=1)
    for _, name, _, users, questions, truth, old, _, alarms, new, *_ in table.rows:
        assert 0 <= float(old) <= 1
        assert float(new) >= 0.85, name
        assert (users, questions) == (str(USERS), str(QUESTIONS + 1))
        assert bool(alarms) == (float(truth) == 0)
    by_name = {row[1]: row for row in table.rows}
    assert float(by_name["random texts"][6]) < 0.8
    assert float(by_name["two of random texts"][8]) > 0.2


def test_one_question_is_cut_out_and_its_items_are_texts(votes: Path) -> None:
    rows, *_ = designs(votes, largest=True)
    items = rows.clusters.items
    assert items is not None
    assert items.unit == "texts"
    assert not any(kind.needs_questions for kind in kinds_for(rows))
    pairs = load_benchmark(str(votes)).select().pairs
    begun = of_question(pairs, "Question 3")
    assert {pair.text for pair in begun} == {"Question 3?"}
    with pytest.raises(SystemExit, match="7 questions begin"):
        of_question(pairs, "Question")


def test_command_prints_a_line_of_each_kind(
    votes: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["cover_on_shared.py", str(votes), "--draws", "20", "--processes", "1"]
    monkeypatch.setattr(sys, "argv", command)
    assert main() == 0
    lines = [cells(line) for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert {len(line) for line in lines} == {12}
    wanted = [kind.name for design in designs(votes) for kind in kinds_for(design)]
    assert [line[1] for line in lines[2:]] == wanted


@pytest.mark.parametrize("broken", [False, True])
def test_intervals_by_user_alone_break_the_bars_of_a_planted_design(
    broken: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if broken:
        alone = Design.by_user_alone
        monkeypatch.setattr(cover_on_shared, "rules_of", lambda design: (alone(design),) * 2)
    planted = planted_design(10, 20, "full")
    monkeypatch.setattr(cover_on_shared, "planted_designs", lambda: [planted])
    monkeypatch.setattr(sys, "argv", ["cover_on_shared.py", "--processes", "1"])
    assert main() == int(broken)
    printed = capsys.readouterr().out
    (line,) = [cells(line) for line in printed.splitlines() if line.startswith("|")][2:]
    assert line[0] == "10 × 20 full"
    assert f"lowest cover: {line[2]} (bar 0.92)" in printed
    assert ("broken" in printed) is broken
    assert float(line[1]) < 0.9


def test_truths_are_those_of_the_planted_scorers() -> None:
    """Brute force: the mean over many worlds, without any interval."""
    for design in planted_design(10, 20, "unequal"):
        for kind in kinds_for(design):
            values = kind.values(World(design, np.random.default_rng(1), 2_000)).mean(axis=0)
            noise = values.std(ddof=1) / np.sqrt(values.size)
            assert abs(values.mean() - kind.truth) < 4 * noise, kind.name


def test_many_means_are_checked_against_palate(monkeypatch: pytest.MonkeyPatch) -> None:
    design, _ = planted_design(10, 5, "sparse")
    kind = kinds_for(design)[0]
    measured(design, kind, 10)
    right = ManyMeans.variances
    monkeypatch.setattr(ManyMeans, "variances", lambda self, apart: 1.001 * right(self, apart))
    with pytest.raises(SystemExit, match="low is"):
        measured(design, kind, 10)


@pytest.mark.parametrize("broken", [False, True])
def test_equivalence_is_shown_too_often_where_the_clusters_are_not_known(
    broken: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def by_row(values: np.ndarray, clusters: Clusters) -> Estimate:
        return clustered_mean(values, np.arange(len(clusters)) if broken else clusters)

    monkeypatch.setattr(cover_of_equivalence, "clustered_mean", by_row)
    monkeypatch.setattr(cover_of_equivalence, "DESIGNS", ((50, 100, "sparse"),))
    monkeypatch.setattr(cover_of_equivalence, "SHARES", Shares(0.02, 0.05, 0.1))
    monkeypatch.setattr(sys, "argv", ["cover_of_equivalence.py", "--sets", "150"])
    assert cover_of_equivalence.main() == int(broken)
    printed = capsys.readouterr().out
    (line,) = [cells(line) for line in printed.splitlines() if line.startswith("|")][2:]
    assert line[:2] == ["50 × 100 sparse", "1,000"]
    assert ("broken" in printed) is broken is (float(line[2]) > 0.065)


@pytest.mark.parametrize("broken", [False, True])
def test_a_test_that_shows_too_much_breaks_the_bar_of_a_tax(
    broken: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tested = cover_of_tax.non_inferiority
    if broken:
        monkeypatch.setattr(
            cover_of_tax, "non_inferiority", lambda loss, margin, questions: tested(loss, margin=1)
        )
    monkeypatch.setattr(cover_of_tax, "DESIGNS", (cover_of_tax.Design(400, 40),))
    monkeypatch.setattr(sys, "argv", ["cover_of_tax.py", "--sets", "120"])
    assert cover_of_tax.main() == int(broken)
    assert ("a bar is broken" in capsys.readouterr().out) is broken
