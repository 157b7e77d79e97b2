"""palate export: a folder for another trainer, RewardBench's file, what the hub shows."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any, Literal

from palate.cli import options as flags
from palate.cli.console import bars_of, show_text
from palate.cli.declare import argument, option
from palate.cli.options import LoadingAnyLayout, LoadingWithChoices, Models
from palate.contexts import build_context
from palate.data import need_own_lines, write_lines
from palate.errors import BenchmarkError, SpecError, UsageError, writing
from palate.evaluation import ContextRows, make_rows
from palate.files import write_whole
from palate.prompts import as_text, render
from palate.records import PreferencePair
from palate.runs import Run, load_runs, read_manifest, slug
from palate.session import Session
from palate.specs import Reference, Spec
from palate.trainers.export import HELD_OUT, TARGETS, export

FIELDS = ("prompt", "chosen", "rejected", "id", "key", "subset")
"""Of a line that RewardBench reads."""
ROLES = ("user", "assistant")
FIRST_LINE = "# Written by palate export hub.\n"
SERVED = (
    *("split", "mirrors", "agreed", "since", "until", "limit", "choices", "source", "revision"),
    *("seed", "dtype", "template_date", "chat_template"),
)
"""Options that `palate serve` needs too, to load the same rows and compute the same."""


@dataclass(frozen=True)
class ExportOptions:
    """Who is trained, on whose questions, and where the rewards come from."""

    policy: str = option(..., "Who is trained: hub, ./folder or pypi:PACKAGE.", "-p", "--policy")
    output: Path = option(..., "New folder for the files.", "-o", "--output")
    policy_context: str = option("none", "What the policy is shown of the user.")
    held_out: int = option(HELD_OUT, "Users who are not trained on.")
    url: str = option("http://127.0.0.1:8000", "Where palate serve will answer.")
    key_env: str | None = option(None, "Environment variable that will hold the bearer token.")
    scale: tuple[float, float] = option(
        (0.0, 1.0), "Mean and deviation: a reward is (score - mean) / deviation."
    )
    kl_coefficient: float = option(
        0.05, "What a nat of KL from the untrained policy costs.", "--kl"
    )


def export_folder(
    to: Literal["trl", "verl", "openrlhf"] = option(..., "Who trains: trl, verl or openrlhf."),
    benchmark: str = flags.benchmark(..., "Benchmark or file."),
    scorer: str = flags.SCORER,
    *,
    context: str = flags.CONTEXT,
    told: ExportOptions,
    loading: LoadingWithChoices,
    models: Models,
) -> None:
    """Write a folder from which another trainer trains a policy on a scorer's rewards.

    trl: its RLOO and GRPO; verl and openrlhf: their PPO. It prints the two commands to run then.
    """
    models.settings()
    (pairs,) = loading.load_all([benchmark], models.seed)
    with models.at_work() as work:
        work.pop("start")(f"prompts for {TARGETS[to].title}")
        words = list(_words(benchmark, loading, models))
        what = {"scorer": scorer, "context": context, "to": to, **vars(told)}
        exported = export(pairs, **what, data_words=words, **work)
    show_text(
        f"{exported.folder}: {exported.train_rows:,} prompts of {exported.train_users:,} users "
        f"to train on, {exported.held_out_rows:,} of {exported.held_out_users:,} others held out\n"
        f"serve:  {exported.serve}\n"
        f"train:  cd {quote(str(exported.folder))} && {exported.start}"
        + (f"\nmakes:  {exported.updates}" if exported.updates else "")
        + "".join(f"\nnote:   {note}" for note in exported.notes)
    )


def _words(benchmark: str, loading: LoadingWithChoices, models: Models) -> Iterator[str]:
    """Yield the options by which `palate serve` loads the same rows and computes the same."""
    yield from ("-b", benchmark)
    given = vars(loading) | vars(models) | {"seed": models.seed or None}
    for name in SERVED:
        if given[name] is not None:
            yield from (f"--{name.replace('_', '-')}", str(given[name]))
    for column in loading.columns:
        yield from ("--map", column)
    for name in ("skip_bad_rows", "order_as_in_file"):
        if given[name]:
            yield f"--{name.replace('_', '-')}"


def export_rewardbench(
    benchmark: str = flags.benchmark(..., "Benchmark or file."),
    output: Path = option(..., "File of lines, .jsonl.", "-o", "--output"),
    *,
    context: str = flags.CONTEXT,
    loading: LoadingAnyLayout,
    seed: int = flags.SEED,
    cache: str | None = flags.CACHE,
    max_cost: float | None = flags.MAX_COST,
) -> None:
    """Write pairs as a file that RewardBench's own program reads and scores.

    The scorer precomputed:FILE reads what that program writes, its `…_outputs.jsonl`.
    """
    need_own_lines(output, FIELDS)
    (pairs,) = loading.load_all([benchmark], seed)
    decided = pairs.pairs
    with Session(cache=cache, max_cost=max_cost) as session, bars_of(session.ledger):
        view = build_context(context, session, flags.make_settings(seed=seed))
        rows = make_rows(pairs, view, seed=seed)
        write_lines(_lines(rows, decided), output)
    without = int(rows.no_stranger.sum())
    left_out = f"; left out, without a third user: {without:,}" if without else ""
    show_text(
        f"{output}: {len(rows) - without:,} pairs of {pairs.name} under {view.spec}{left_out}\n"
        f"score:  rewardbench --model MODEL --dataset {quote(str(output))} --load_json"
    )


def _lines(rows: ContextRows, pairs: Sequence[PreferencePair]) -> Iterator[dict[str, Any]]:
    """Yield each pair, its texts as whole conversations.

    Their program takes a bare text beside a prompt of messages alone, and with `datasets` from 4 on
    it takes none. It reads a turn's place for its role.
    """
    rows.prepare()
    for row in range(len(rows)):
        slate, pair = rows.slate(row), pairs[row // rows.draws]
        if rows.no_stranger[row]:
            continue
        prompt = render(slate.question, slate.shown)
        turns = [turn.model_dump() for turn in prompt]
        if any(turn.role != ROLES[k % 2] for k, turn in enumerate(prompt)):
            raise BenchmarkError(
                f"row {rows.id(row)!r}: its turns are not user, assistant, user …, the only ones "
                "that RewardBench reads; leave the row out"
            )
        texts = pair.chosen, pair.rejected
        closed = ([*turns, {"role": "assistant", "content": text}] for text in texts)
        line = as_text(prompt), *closed, rows.id(row), slate.prompt_key, pair.subset
        yield dict(zip(FIELDS, line, strict=True))


def export_hub(
    runs: list[Path] = argument(..., "Run folders, or folders that hold them."),
    output: Path = option(..., "Folder for the files.", "-o", "--output"),
    dataset: str = option(..., "The data set on the hub.", metavar="ORG/NAME"),
) -> None:
    """Write what the hub shows: .eval_results/*.yaml of each model, eval.yaml of the data set.

    A task is a context, a value an accuracy; notes name scorer, interval and run.
    """
    try:
        import yaml
        from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml
    except ImportError as error:
        raise UsageError("export hub needs pip install 'huggingface-hub>=2.4'") from error
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", dataset):
        raise UsageError(f"--dataset {dataset}: expected ORG/NAME")
    loaded = load_runs(runs)
    names = sorted({run.summary.benchmark for run in loaded})
    if len(names) > 1:
        raise UsageError(f"runs of {', '.join(names)}: name those of one data set")
    entries: dict[str, list[Any]] = defaultdict(list)
    tasks, left_out = {}, []
    for run in loaded:
        figures, model = run.summary, _model(run)
        if model is None or run.accuracy is None or figures.oracle:
            left_out.append(f"{figures.scorer} under {figures.context}")
            continue
        assert run.folder is not None, "it was read from a folder"
        identity, task = read_manifest(run.folder).identity, slug(figures.context)
        tasks[task] = {"id": task, "config": "default", "split": identity.get("split") or "test"}
        low, high = figures.accuracy.low, figures.accuracy.high
        interval = "" if low is None else f", 95 % interval {low:.3f} to {high:.3f}"
        entry = EvalResultEntry(
            dataset_id=dataset,
            task_id=task,
            value=run.accuracy,
            dataset_revision=identity.get("revision"),
            notes=f"{figures.scorer}: accuracy of {figures.accuracy.n:,}{interval}; palate "
            f"{run.folder.name}",
        )
        entries[model].append(entry)
    file = f"{slug(names[0])}.yaml"
    documents: dict[Path, Any] = {
        output / slug(model.replace("/", "--")) / ".eval_results" / file: (
            eval_result_entries_to_yaml(results)
        )
        for model, results in entries.items()
    }
    documents[output / "eval.yaml"] = {
        "name": names[0],
        "description": "Accuracy of reward models that are shown a part of the user.",
        "evaluation_framework": "palate",
        "tasks": list(tasks.values()),
    }
    if not entries:
        raise UsageError("no run is of a model on the hub, so there is nothing to write")
    for path in documents:
        exported = path.is_file() and path.read_bytes().startswith(FIRST_LINE.encode())
        if path.exists() and not exported:
            raise UsageError(f"{path}: is there and is not palate's; choose another -o")
    for path, document in documents.items():
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
            write_whole(path, FIRST_LINE + text)
        show_text(str(path))
    if left_out:
        show_text(f"left out, of no model on the hub or oracles: {', '.join(left_out)}")


def _model(run: Run) -> str | None:
    """Return the name of the model on the hub that a run scores with; None for any other."""
    try:
        reference = Reference.parse(Spec.parse(run.summary.scorer).reference or "")
    except SpecError:
        return None
    return reference.name if reference.place == "hub" else None
