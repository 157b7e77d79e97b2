"""Answers of a policy to every question: drawn once, kept as they come, read by many scorers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from palate.benchmarks import Dataset
from palate.downstream.sampling.policies import MissingSamples, Policy, Sample
from palate.downstream.sampling.samples import Samples, check_number
from palate.engines import Reply
from palate.errors import EndpointError, ModelError, UsageError
from palate.evaluation import Progress, make_rows
from palate.prompts import render
from palate.records import Context, Message, Part, Question
from palate.seeding import digest
from palate.stores import Store

Shown = Callable[[Question], tuple[Part, ...]]


def shown_to_policy(context: Context, pairs: Dataset, seed: int) -> Shown | None:
    """Return what a context shows the policy of each row's user; None where that is nothing.

    Raises `UsageError` for a context that shows gold, which no policy has, and for one that shows
    several strangers.
    """
    refuse_draws(context, context.spec)
    if context.oracle:
        raise UsageError(f"{context.spec} shows what only a judge may see; choose another context")
    if context.blind:
        return None
    rows = make_rows(pairs, context, seed=seed)
    rows.prepare()
    place = {question.id: k for k, question in enumerate(pairs.rows)}
    return lambda question: rows[place[question.id]].slate.shown


def refuse_draws(drawing: object, spec: str) -> None:
    """Raise `UsageError` for several strangers a row: verdicts can be averaged, scores cannot."""
    if getattr(drawing, "draws", 1) > 1:
        raise UsageError(
            f"best-of-n: {spec}: answers are drawn and scored under one stranger; no draws"
        )


def draw_samples(
    policy: Policy,
    pairs: Dataset,
    n: int,
    store: Store,
    shown: Shown | None = None,
    progress: Progress | None = None,
    *,
    named: str | None = None,
) -> Samples:
    """Return n answers of a policy to every row's question, drawing what is not there yet.

    `named` is what the samples are called where that is more than the policy's spec, such as what
    it was shown. Rows that ask the policy the same share their samples. Each sample is kept in the
    store as it comes, by policy, prompt and number: a process that is stopped loses what was under
    way, and more samples later go on from those that are there.

    Raises:
        EndpointError: where an endpoint did not answer; what came is kept.
        ModelError: where a prompt leaves no room for an answer, or was refused; or where the policy
            writes one and the same text every time, or none at all.
        UsageError: for an n below 1.
    """
    check_number(n)
    documents = store.documents("samples")
    prompts_by_row = [
        render((Message(role="user", content=row.text),), shown(row) if shown else ())
        for row in pairs.rows
    ]
    plain = [[(message.role, message.content) for message in prompt] for prompt in prompts_by_row]
    keys = [digest("sampled", policy.fingerprint, prompt) for prompt in plain]
    prompts = dict(zip(keys, prompts_by_row, strict=True))
    known: dict[tuple[str, int], Sample] = {}
    wanted: list[MissingSamples] = []
    owners: list[str] = []
    for key, prompt in prompts.items():
        missing = []
        for number in range(n):
            earlier = documents.get_json(digest(key, number))
            if earlier is None:
                missing.append(number)
            else:
                known[key, number] = Sample(**earlier)
        if missing:
            wanted.append(MissingSamples(prompt, tuple(missing)))
            owners.append(key)
    failed: list[Reply] = []
    total = len(prompts) * n
    for k, number, reply in policy.draw(wanted) if wanted else ():
        if reply.failure is not None:
            failed.append(reply)
            continue
        sample = known[owners[k], number] = Sample(reply.text, reply.cut_off)
        documents.put_json(digest(owners[k], number), sample._asdict())
        if progress is not None:
            progress(len(known), total)
    _refuse(policy, failed, total)
    ids = tuple(row.id for row in pairs.rows)
    of_row = tuple(tuple(known[key, number] for number in range(n)) for key in keys)
    samples = Samples(named or policy.spec, ids, of_row)
    if samples.nothing_to_rank:
        raise ModelError(
            f"{policy.spec}: {samples.nothing_to_rank}; does the policy sample (is its temperature "
            "ignored?), and does it write?"
        )
    return samples


def _refuse(policy: Policy, failed: Sequence[Reply], total: int) -> None:
    if not failed:
        return
    reasons = "; ".join(sorted({str(reply.failure) for reply in failed}))
    said = f"{policy.spec}: {len(failed)} of {total} samples were not drawn ({reasons})"
    if any(one.outage for one in failed):
        raise EndpointError(f"{said}; what came is kept, run the same command again")
    raise ModelError(f"{said}; take those questions out of the file, or choose another policy")
