"""Build pairs against a scripted chat server that plants faults, and print what was reported.

    python tools/planted_build.py [--each 20] [--good 60] [--noise 2000] [--rejected violate]

The server reads and writes for made-up users, rates answers by their rubrics and judges them blind.
It is wrong on purpose on so many questions for each fault, and right on the others. Three tables:

- planted against reported: only the planted fault may be reported, and all good pairs are kept;
- of couples whose ratings are pure noise, 3 to 7 % may pass;
- a server that answers some prompts with a lasting 500: exit 3; called again, only what lacks is
  asked.

Exits 1 where any of this does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from palate.benchmarks import Dataset
from palate.benchmarks.dataset import as_mirrored
from palate.construction.gap import gap_faults
from palate.construction.pair_records import PairsOptions
from palate.construction.pairs import build_pairs
from palate.evaluation import Work
from palate.quality import QualityScore
from palate.quality.measure import Need, QuestionResponse, require_aspects
from palate.records import Gold, PreferencePair, Question, RubricAspect
from palate.seeding import unit
from palate.session import Session

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from endpoints import Loopback

REPORTED = {
    "empty": "answers: writer: empty",
    "cut off": "answers: writer: cut off",
    "refusal": "answers: writer: a refusal",
    "model named": "answers: writer: names its model",
    "word budget": "answers: writer: words",
    "lengths": "answers: writer: lengths",
    "unreadable": "rubric: reader: unreadable",
    "number out of range": "rubric: reader: number out of range",
    "parrot": "checks: parrot",
    "leak": "checks: leak",
    "no gap": "checks: gap",
    "one side better": "checks: blind",
}
"""What a build reports of each planted fault."""
KEPT = "kept"
WORDS, BUDGET = 40, "30-50"
VOCABULARY = 4_000
BETTER = "splendid"
"""The blind judge prefers an answer with this word."""
NUMBER = re.compile(r"Number (\d+):")


def some_words(stream: random.Random, n: int) -> str:
    """Return so many made-up words."""
    return " ".join(f"w{stream.randrange(VOCABULARY)}" for _ in range(n))


class PlantedUser:
    """All texts of the user who asks a question, a function of its number and their side."""

    def __init__(self, number: int, side: str) -> None:
        self.id, stream = f"{number}{side}", random.Random(f"{number}{side}")
        self.mark = f"n{number}"
        self.question = f"Number {number}: which {some_words(random.Random(number), 3)}?"
        self.sentences = [some_words(stream, 9) + "." for _ in range(5)]
        self.titles = [some_words(stream, 3) for _ in range(2)]
        self.posts = [some_words(stream, 25) for _ in range(4)]
        self.stream = stream

    @property
    def row(self) -> dict[str, Any]:
        """The row of the source: no rubric, and no answer."""
        posts = [
            {"id": f"{self.id}-{k}", "text": text, "category": "", "date": f"2020-01-0{k + 1}"}
            for k, text in enumerate(self.posts)
        ]
        return {
            "id": self.id, "user_id": f"u{self.id}", "question": self.question, "profile": posts,
            "narrative": " ".join(self.sentences), "rubric_aspects": [], "date": "2020-02-01",
            "category": "",
        }  # fmt: skip

    def rubric(self, number: int = 3) -> str:
        """Return what a good reader writes; `number` is a sentence that it names."""
        return "\n\n".join(
            f"Aspect: {title}\nReason: {some_words(self.stream, 4)}\nSentences: 1, {number}"
            for title in self.titles
        )

    def answer(self, n: int = WORDS, *, titles: bool = True, also: str = "") -> str:
        """Return an answer of n words that holds the titles, between two marks of its question."""
        told = [self.mark, *([", ".join(self.titles)] if titles else []), *([also] if also else [])]
        missing = n - len(" ".join(told).split()) - 1
        return f"{' '.join(told)} {some_words(self.stream, missing)} {self.mark}"


class Script:
    """A chat server: the reader, the writer and two judges, by what a prompt holds."""

    def __init__(self, faults: list[str | None]) -> None:
        self.faults = faults
        self.down: set[int] = set()
        """Questions whose answers it does not write, for good: 500."""
        self.answered: list[str] = []
        """Prompts of reader and writer that it answered, in turn."""

    def __call__(self, path: str, body: Any) -> tuple[int, Any]:
        """Answer one request."""
        del path
        prompt = body["messages"][-1]["content"]
        if "\nWhat this person expects:\n" in prompt:
            replies = [f"Rating: {_rating(prompt)}"]
        elif "<response_a>" in prompt:
            replies = [f"Verdict: {_verdict(prompt)}"]
        else:
            number = int(NUMBER.search(prompt)[1])  # type: ignore[index]
            reads = "Sentences:" in prompt
            if number in self.down and not reads:
                return 500, {"error": {"message": "down"}}
            self.answered.append(prompt)
            reply = self.read if reads else self.write
            replies = [reply(number, prompt) for _ in range(body.get("n", 1))]
        cut = "length" if replies[0].endswith(" and") else "stop"
        return 200, {"choices": [
            {"index": k, "message": {"role": "assistant", "content": text}, "finish_reason": cut}
            for k, text in enumerate(replies)
        ]}  # fmt: skip

    def read(self, number: int, prompt: str) -> str:
        """Return a reader's reply; of faults of the reader side a is read wrong."""
        first = next(u for s in "ab" if (u := PlantedUser(number, s)).sentences[0] in prompt)
        fault = self.faults[number] if first.id.endswith("a") else None
        if fault == "unreadable":
            return f"{first.rubric()}\nThese are the aspects."
        return first.rubric(6 if fault == "number out of range" else 3)

    def write(self, number: int, prompt: str) -> str:
        """Return an answer; of faults of the writer that for side a is wrong."""
        user = next(u for s in "ab" if (u := PlantedUser(number, s)).titles[0] in prompt)
        against, fault = "goes against" in prompt, self.faults[number]
        follows = not against and fault != "no gap"
        if against or user.id.endswith("b"):
            return user.answer(31 if fault == "lengths" else WORDS, titles=follows)
        wrong = {
            "empty": "",
            "cut off": f"{user.answer()} and",
            "refusal": "I'm sorry, but I can't help with that.",
            "model named": f"As an AI language model, I {user.answer()}",
            "word budget": user.answer(60),
            "lengths": user.answer(48),
            "parrot": user.answer(also=user.sentences[1]),
            "leak": user.answer(also=" ".join(user.posts[2].split()[3:17])),
            "one side better": user.answer(also=BETTER),
        }
        return wrong.get(str(fault), user.answer(titles=follows))


def _rating(prompt: str) -> int:
    response, _, expected = prompt.partition("\nResponse:\n")[2].partition(
        "\nWhat this person expects:\n"
    )
    return 2 * (expected.splitlines()[0].strip() in response)


def _verdict(prompt: str) -> str:
    # A whole answer to this question is better, then one with the word that is liked. Of answers
    # that are alike it prefers the first: both orders then disagree.
    mark = f"n{NUMBER.search(prompt)[1]}"  # type: ignore[index]
    worth = []
    for letter in "ab":
        response = prompt.partition(f"<response_{letter}>")[2].partition("</response_")[0]
        words = response.split()
        worth.append((words[:1] == words[-1:] == [mark], BETTER in words))
    return "AB"[worth[1] > worth[0]]


class Noise:
    """A measure of quality that says nothing: a number drawn for each answer and rubric."""

    def __init__(self) -> None:
        self.spec = self.fingerprint = "noise"
        self.surrogate, self.details = False, dict[str, Any]()
        self.needs: tuple[Need, ...] = ("aspects",)

    def check(self, rows: Sequence[Question]) -> None:
        """Raise `BenchmarkError` for a row without a rubric."""
        require_aspects(rows)

    def rate(self, items: Sequence[QuestionResponse]) -> Iterator[tuple[int, QualityScore]]:
        """Yield the numbers."""
        for k, (question, answer) in enumerate(items):
            yield k, QualityScore(value=unit("noise", answer, question.gold.aspects[0].aspect))


class Outcome(NamedTuple):
    """A table, and whether it is as it must be."""

    text: str
    holds: bool


def planted(each: int, good: int, rejected: str, folder: Path) -> Outcome:
    """Build pairs of planted faults; count what was reported of each."""
    faults = [*(fault for fault in REPORTED for _ in range(each)), *[None] * good]
    source = write_rows(folder, len(faults), "ab" if rejected == "mirror" else "a")
    with Loopback(Script(faults)) as server:
        build = build_pairs(
            source, folder / "out", options(server.url, rejected), root=folder / "runs",
            session=Session(store=folder / "store"),
        )  # fmt: skip
    counts: dict[str, Counter[str]] = {name: Counter() for name in (*REPORTED, KEPT)}
    for row in build.rows:
        if not row.id.endswith("b"):
            reported = KEPT if row.stage is None else f"{row.stage}: {row.reason}"
            counts[faults[int(row.id[:-1])] or KEPT][reported] += 1
    wanted = {**{fault: {REPORTED[fault]: each} for fault in REPORTED}, KEPT: {KEPT: good}}
    lines = [
        f"| {fault} | {'; '.join(f'{name}: {n}' for name, n in of.items())} |"
        for fault, of in counts.items()
    ]
    head = f"--rejected {rejected}\n\n| planted | reported |\n|---|---|"
    return Outcome("\n".join((head, *lines)), counts == wanted)


def noise(n: int, folder: Path) -> Outcome:
    """Count the couples that pass where ratings are noise."""
    pairs = tuple(pair for k in range(n) for pair in couple_of_noise(k))
    work = Work.of(Session(store=folder / "noise"))
    faults, _ = gap_faults(as_mirrored(Dataset("noise", pairs)), Noise(), "null:0.95", work)
    share = sum(not fault for fault in faults) / len(faults)
    return Outcome(f"pure noise: {share:.1%} of {n:,} couples pass", 0.03 <= share <= 0.07)


def couple_of_noise(number: int) -> list[PreferencePair]:
    """Return two users' pairs of one question, each with a rubric."""
    answers = f"first of {number}", f"second of {number}"
    return [
        PreferencePair(
            id=f"{number}{side}", user_id=f"u{number}{side}", text=f"Question {number}?",
            chosen=answers[k], rejected=answers[1 - k], mirror_of=f"{number}{'ba'[k]}",
            gold=Gold(aspects=(RubricAspect(aspect=f"taste of {number}{side}"),)),
        )
        for k, side in enumerate("ab")
    ]  # fmt: skip


def outage(good: int, folder: Path) -> Outcome:
    """Call the command against a server that is down for every fifth question, then when it is up.

    The first call must exit with 3; the second asks for nothing that came before.
    """
    script = Script([None] * good)
    script.down = set(range(0, good, 5))
    source = write_rows(folder, good, "ab")
    with Loopback(script) as server:
        wanted = options(server.url, "mirror")
        command = [
            *(sys.executable, "-m", "palate", "build", "pairs", str(source), "-o", "out"),
            *("--layout", wanted.layout, "--writer", wanted.writers[0], "--words", wanted.words),
            *("--reader", str(wanted.reader), "--adherence", str(wanted.adherence)),
            *("--blind", str(wanted.blind)),
        ]
        environment = os.environ | {"PALATE_CACHE": str(folder / "cache")}

        def call() -> tuple[int, Counter[str]]:
            script.answered.clear()
            done = subprocess.run(
                command, cwd=folder, env=environment, check=False, capture_output=True
            )
            return done.returncode, Counter(script.answered)

        first, before = call()
        script.down = set()
        second, after = call()
    again = sum(after[prompt] for prompt in before)
    lacked = 2 * len(range(0, good, 5))
    text = (
        f"a lasting 500 for {lacked} prompts: exit {first}; called again: exit {second}, "
        f"{len(after)} prompts asked, {again} of them a second time"
    )
    return Outcome(text, (first, second, len(after), again) == (3, 0, lacked, 0))


def options(url: str, rejected: str) -> PairsOptions:
    """Return the options of a build whose every model is this server."""
    model = f"api:scripted?base_url={url}&retries=0"
    return PairsOptions(
        layout="rows", writers=(model,), reader=model, attempts=2, rejected=rejected, words=BUDGET,
        adherence=f"rubric-judge:{model}", blind=f"judge:{model}", keep_ids=True,
    )  # fmt: skip


def write_rows(folder: Path, questions: int, sides: str) -> Path:
    """Write the source: of each question the rows of one or two users."""
    path = folder / "rows.jsonl"
    rows = (PlantedUser(k, side).row for k in range(questions) for side in sides)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def main() -> int:
    """Plant, build, print; 1 where something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=20, help="pairs of each fault")
    parser.add_argument("--good", type=int, default=60, help="pairs without a fault")
    parser.add_argument("--noise", type=int, default=2000, help="couples of pure noise")
    parser.add_argument("--rejected", choices=("mirror", "violate"), default="mirror")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        outcomes: list[Outcome] = []
        parts: dict[str, Callable[[Path], Outcome]] = {
            "planted": lambda to: planted(given.each, given.good, given.rejected, to),
            "noise": lambda to: noise(given.noise, to),
            "outage": lambda to: outage(given.good, to),
        }
        for part, work in parts.items():
            folder = Path(name) / part
            folder.mkdir()
            outcomes.append(work(folder))
            sys.stdout.write(f"{outcomes[-1].text}\n\n")
            sys.stdout.flush()
    wrong = sum(not outcome.holds for outcome in outcomes)
    sys.stdout.write(f"{wrong} of {len(outcomes)} do not hold\n" if wrong else "all hold\n")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
