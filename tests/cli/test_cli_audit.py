"""palate audit as a person uses it: the screen, what is kept, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from command_line import palate, write_rows
from palate.benchmarks import load_benchmark


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Thirty-three rows, of which a machine wrote one; the longer answer is always chosen."""
    rows = [
        {
            "id": f"r{k}", "user_id": f"u{k % 11}", "question": f"What of {k}?",
            "chosen": " ".join(f"w{k}x{j}" for j in range(40)),
            "rejected": " ".join(f"w{k}x{j}" for j in range(35)), "kind": "tea",
        }
        for k in range(33)
    ]  # fmt: skip
    rows[7]["rejected"] = "As an AI language model, I drink nothing."
    return write_rows(tmp_path / "teas.jsonl", rows)


def test_it_prints_checks_rows_sights_and_blind_scorers(pairs: Path) -> None:
    done = palate(
        "audit", "-b", "teas.jsonl", "--blind", "random", "--apart", "0", cwd=pairs.parent
    )
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert done.stdout == snapshot("""\
audit of teas: 33 rows

 check          a row fails where                                           checked   failed
 ───────────────────────────────────────────────────────────────────────────────────────────
 format         an answer is empty, a refusal, or names its model                33        1
 quote          evidence is neither in the narrative nor in a post                –        –
 parrot         an answer shares 8 words in a row with the gold                   –        –
 leak           question, narrative or answer shares 13 words with a post         –        –
 later          a post was not written before the question                        –        –
 repeated       the user's earlier row is nearly the same                        33        0
 contaminated   13 words are shared with another file                             –        –
 gap            the chosen answer does not meet the rubric better                 –        –
 blind          one answer is better for anybody                                 33     (33)

32 rows are without a reason; 32 would be kept.
blind counts for nothing: it is not shown to prefer an answer to any twin.
–: quote needs evidence, and posts or narratives; parrot needs narratives, rubrics or references;
leak needs profiles; later needs dates of questions and posts; contaminated needs --against FILE;
gap needs --adherence MEASURE.

rows with a reason

 row   why
 ──────────────────────────────────────
 r7    format: rejected names its model

rows.jsonl of the result has every row and its reasons in full.

can they see?

 filter   prefers the right text to        won           share [95 %]     finding
 ────────────────────────────────────────────────────────────────────────────────
 blind    the words shuffled          15 of 30   0.500 [0.332, 0.668]   not shown
 blind    the first 30 words          12 of 30   0.400 [0.246, 0.577]   not shown
 blind    another question's answer   11 of 30   0.367 [0.219, 0.545]   not shown

blind: random.
Ties are lost. shown: the lower end of the 95 % Wilson interval is above ½.

without the user

 scorer             accuracy [95 %]   rows     at ½?
 ───────────────────────────────────────────────────
 longest       1.000 [0.715, 1.000]     33   refuted
 shortest      0.000 [0.000, 0.285]     33   refuted
 style probe   1.000 [0.715, 1.000]     33   refuted

shown: at ½, within 0.05, by two one-sided tests. refuted: the interval lies beyond. Clustered as in
evaluate; probes are fitted on the other questions.

how good anybody could be

                         accuracy [95 %]   captured [95 %]
 ─────────────────────────────────────────────────────────
 without the user, B                   –                 –
 with the user, P                      –                 –
 taste is worth, P − B                 –                 –

B is not identifiable: no pair has votes of two users, and rows that name no user are nobody's. Let
two or more people, better five, vote on the same pairs.
P is not identifiable: nobody voted on a pair again, or too few did. Ask some users the same pairs
once more; leave both rows in the file, or name the later choice in `chosen_again`.

what was read of teas

 of the data         what palate made of it
 ───────────────────────────────────────────────────────────
 layout              contract
 read                chosen, id, question, rejected, user_id
 kept, never shown   kind
 rows                33
 users               11, 0 with posts

""")


def test_it_prints_what_it_read_and_its_manifest_keeps_that(tmp_path: Path) -> None:
    header = "prompt,response_a,response_b,winner,rater"
    lines = [f"Tea {k}?,Green.,Black.,{'ab'[k % 2]},u{k % 3}" for k in range(6)]
    text = "\n".join([header, *lines, header, lines[0], "Milk?,Yes.,Yes.,a,u1"])
    (tmp_path / "votes.csv").write_text(text, encoding="utf-8")
    done = palate("audit", "votes.csv", "--skip-bad-rows", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = " ".join(done.stdout.partition("what was read of votes")[2].split())
    for fact in (
        "layout vote", "read question = prompt,", "rows 7", "users 3, 0 with posts",
        "bad rows, left out 1: chosen: equals `rejected`; a pair needs two different responses",
        "1 row left out: the header once more", "1: equal votes of one person, each counted",
    ):  # fmt: skip
        assert fact in told
    (manifest,) = (json.loads(m.read_text("utf-8")) for m in tmp_path.glob("runs/*/audit/*/man*"))
    assert manifest["account"]["left_out"] == {"the header once more": 1}
    assert manifest["account"]["columns"]["rater"] == "user_id"


def test_kept_rows_can_be_read_and_strict_says_why(pairs: Path) -> None:
    done = palate(
        "audit", "-b", "teas.jsonl", "--kept", "good.jsonl.gz", "--strict", cwd=pairs.parent
    )
    assert done.returncode == 1
    refuted = "longest, shortest, style probe"
    assert f"strict: 1 rows have a reason; refuted: {refuted}" in done.stderr
    good, every = (load_benchmark(str(pairs.with_name(n))) for n in ("good.jsonl.gz", "teas.jsonl"))
    assert good.rows == tuple(row for row in every.rows if row.id != "r7")
    assert good.rows[0].extra == {"kind": "tea"}


def test_mirrored_couples_are_at_a_half_by_law_and_pass_strict(tmp_path: Path) -> None:
    done = palate("audit", "-b", "tasting", "--strict", "--format", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["kind"], document["without_user"]) == ("audit", [])
    assert {check["name"]: check["verbatim"] for check in document["checks"]}["quote"] == [364, 364]
    shown = palate("audit", "-b", "tasting", cwd=tmp_path)
    assert "without the user: mirrored couples are at ½ by law" in shown.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--kept", "good.csv"), "--kept good.csv: expected a file that ends in .jsonl"),
        (("--kept", "./teas.jsonl"), "teas.jsonl: is the benchmark itself; name another file"),
        (("--gap", "1"), "--gap 1: a gap is of a measure; name one by --adherence"),
        (("--blind", "longest"), "--blind longest: --apart N says by how many"),
        (("--against", "nowhere.jsonl"), "nowhere.jsonl"),
        (("--adherence", "overlap:rouge-l"), "rubric_aspects|reference"),
    ],
)
def test_mistakes_are_one_line(pairs: Path, words: tuple[str, ...], message: str) -> None:
    done = palate("audit", "-b", "teas.jsonl", *words, cwd=pairs.parent)
    assert (done.returncode, done.stdout) == (2, "")
    assert any(part in done.stderr for part in message.split("|"))
    assert len(done.stderr.strip().splitlines()) == 1


def test_nothing_is_written_where_no_row_is_good(pairs: Path) -> None:
    row = json.loads(pairs.read_text().splitlines()[7])
    pairs.write_text(f"{json.dumps(row)}\n")
    done = palate("audit", "-b", "teas.jsonl", "--kept", "good.jsonl", cwd=pairs.parent)
    assert done.returncode == 1
    assert "no row is without a reason; nothing is written" in done.stderr
    assert not pairs.with_name("good.jsonl").exists()
