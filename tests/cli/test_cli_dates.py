"""`--order-as-in-file`, as a person uses it, and couples of two forms."""

import json

from command_line import write_rows
from palate.construction import build_own_text


def row(k: int, **more):
    dates = ("9/30/2017", "11 13, 2015")
    posts = [{"id": f"{k}-{j}", "text": f"wrote {k} {j}", "date": date}
             for j, date in enumerate(dates)]  # fmt: skip
    return {"id": f"r{k}", "user_id": f"u{k}", "question": f"Which tea, {k}?", "chosen": "Green.",
            "rejected": "Black tea.", "profile": posts, **more}  # fmt: skip


def test_dates_that_cannot_be_read_stop_the_run_or_the_files_order_counts(palate, tmp_path):
    file = write_rows(tmp_path / "mine.jsonl", [row(k) for k in range(6)])
    words = ("evaluate", "-b", file, "-s", "longest", "-c", "profile:1?order=recent")
    code, _, said = palate(*words)
    assert code == 2
    assert f"{file}:1: `profile[0].date`: '9/30/2017' is no date" in said
    code, _, said = palate(*words, "--order-as-in-file")
    assert code == 0
    assert said.count("dates are not read (--order-as-in-file)") == 1
    (manifest,) = (tmp_path / "runs").rglob("manifest.json")
    assert json.loads(manifest.read_text())["identity"]["order"] == "as in file"
    code, said, _ = palate("show", "-b", file, "-c", "profile:1?order=recent", "--pair", "r2",
                           "-s", "longest", "--order-as-in-file")  # fmt: skip
    assert "wrote 2 1" in said and "wrote 2 0" not in said, "the last of the file is the latest"
    code, _, said = palate("report", "runs", "-b", file, "--texts", "-o", "page.html")
    assert code == 0, said
    assert "Which tea, " in (tmp_path / "page.html").read_text(), "the rows are read again"


def test_a_build_reads_dates_or_leaves_them_alone(palate, tmp_path):
    def entry(user: int, k: int):
        words = " ".join(f"h{user}k{k}w{j}" for j in range(8))
        posts = [{"id": f"{user}{k}p{j}", "text": " ".join(f"o{user}{k}{j}x{i}" for i in range(9)),
                  "date": date} for j, date in enumerate(("9 Jan 2015", "2/1/2017"))]  # fmt: skip
        return {"id": f"{user}{k}", "user_id": f"u{user}", "question": f"Write on harbour {k} now.",
                "reference": words, "profile": posts, "date": "2016"}  # fmt: skip

    file = write_rows(
        tmp_path / "own.jsonl", [entry(user, k) for user in range(3) for k in range(2)]
    )
    words = ("build", "own-text", file, "--layout", "rows", "-o", "built.jsonl")
    code, _, said = palate(*words)
    assert code == 2
    assert "`date`: '00': '2/1/2017' is no date that can be read in one way only" in said
    code, _, _ = palate(*words, "--order-as-in-file")
    assert code == 0
    built = [json.loads(line) for line in (tmp_path / "built.jsonl").read_text().splitlines()]
    assert all("date" not in one for one in built)
    assert [len(one["profile"]) for one in built if one["split"] == "test"] == [2] * 6


def test_a_build_leaves_out_what_is_not_earlier_in_whatever_form(tmp_path):
    def entry(user: int):
        dates = ("Mon, 06 Apr 2009 22:19:45 -0700", "1488326400", "2015-12-31T23:30:00-01:00")
        posts = [{"id": f"{user}p{j}", "text": " ".join(f"o{user}{j}x{i}" for i in range(9)),
                  "date": date} for j, date in enumerate(dates)]  # fmt: skip
        return {"id": f"r{user}", "user_id": f"u{user}", "question": "Write on the harbour now.",
                "reference": " ".join(f"h{user}w{j}" for j in range(8)), "profile": posts,
                "date": "2016-01-01 00:00:00"}  # fmt: skip

    write_rows(tmp_path / "own.jsonl", map(entry, range(3)))
    build = build_own_text(
        tmp_path / "own.jsonl", tmp_path / "built.jsonl", layout="rows", root=None
    )
    assert build.dropped["profile items"] == {"not earlier": 6}
    first = json.loads((tmp_path / "built.jsonl").read_text().splitlines()[0])
    assert [one["date"] for one in first["profile"]] == ["Mon, 06 Apr 2009 22:19:45 -0700"]
    assert first["date"] == "2016-01-01T00:00:00"


def test_couples_in_two_forms_are_said(palate, tmp_path):
    two = [row(0, profile=[]), row(1, profile=[], question="Which  tea, 0? ", chosen="Black tea.",
                                   rejected="Green.\r\n")]  # fmt: skip
    file = write_rows(tmp_path / "mine.jsonl", two)
    code, _, said = palate("evaluate", "-b", file, "-s", "longest", "--mirrors", "only")
    assert code == 0
    assert "mine: 1 mirrored couple with texts that differ in white space or accents" in said
