"""Answers of a policy to every question: drawn once, kept as they come, read by many scorers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from palate.answers.policies import GuideInput, MissingSamples, Policy, Sample
from palate.answers.prompts import NotDrawn, draw_requests, sample_key
from palate.answers.samples import Samples, check_number
from palate.benchmarks import Dataset
from palate.errors import EndpointError, ModelError, UsageError
from palate.evaluation import Progress, make_rows
from palate.prompts import render
from palate.records import Context, Message, Part, Question
from palate.stores import Store

ShownParts = Callable[[Question], tuple[Part, ...]]


def shown_to_policy(context: Context, pairs: Dataset, seed: int) -> ShownParts | None:
    """Return what a context shows the policy of each row's user; None where that is nothing.

    Raises `UsageError` for a context that shows gold, which no policy has, and for one that shows
    several strangers.
    """
    refuse_draws(context, context.spec)
    if context.oracle:
        raise UsageError(f"{context.spec} shows what only a judge may see; choose another context")
    if context.empty:
        return None
    rows = make_rows(pairs, context, seed=seed)
    rows.prepare()
    place = {question.id: k for k, question in enumerate(pairs.rows)}
    return lambda question: rows[place[question.id]].slate.shown


def policy_prompt(question: Question, shown_parts: ShownParts | None) -> tuple[Message, ...]:
    """Return the messages a policy is asked a question by: what it is shown, then the question.

    >>> question = Question(id="1", user_id="ann", text="Tea?")
    >>> [message.content for message in policy_prompt(question, None)]
    ['Tea?']
    """
    return render(question.messages, shown_parts(question) if shown_parts else ())


def refuse_draws(drawing: object, spec: str, command: str = "best-of-n") -> None:
    """Raise `UsageError` for several strangers a row: verdicts can be averaged, scores cannot."""
    if getattr(drawing, "draws", 1) > 1:
        raise UsageError(
            f"{command}: {spec}: answers are drawn and scored under one stranger; no draws"
        )


def draw_samples(
    policy: Policy,
    pairs: Dataset,
    n: int,
    store: Store,
    shown_parts: ShownParts | None = None,
    progress: Progress | None = None,
    *,
    named: str | None = None,
    guide_inputs: Sequence[GuideInput | None] | None = None,
) -> Samples:
    """Return n answers of a policy to every row's question, drawing what is not there yet.

    `named` is what the samples are called where that is more than the policy's spec, such as what
    it was shown. Rows that ask the policy the same share their samples. Each sample is kept in the
    store as it comes, by policy, prompt and number: a process that is stopped loses what was under
    way, and more samples later go on from those that are there.

    `guide_inputs` are what a guided policy's guide reads of each row, and part of what samples are
    kept by; a row without one is left out, and its answers are empty.

    Raises:
        EndpointError: where an endpoint did not answer; what came is kept.
        ModelError: where a prompt leaves no room for an answer, or was refused; or where the policy
            writes one and the same text every time, or none at all.
        UsageError: for an n below 1.
    """
    check_number(n)
    requests: dict[str, MissingSamples] = {}
    keys: list[str | None] = []
    for k, row in enumerate(pairs.rows):
        prompt = policy_prompt(row, shown_parts)
        read = None if guide_inputs is None else guide_inputs[k]
        if guide_inputs is not None and read is None:
            keys.append(None)
            continue
        key = sample_key(policy, prompt, *(() if read is None else read.identity))
        requests[key] = MissingSamples(prompt, tuple(range(n)), read)
        keys.append(key)
    drawn = draw_requests(policy, requests, store, progress, whole=True)
    known = _all_drawn(policy, drawn, len(requests) * n)
    ids = tuple(row.id for row in pairs.rows)
    empty = (Sample(""),) * n
    of_row = tuple(
        empty if key is None else tuple(known[key, number] for number in range(n)) for key in keys
    )
    left_out = frozenset(k for k, key in enumerate(keys) if key is None)
    samples = Samples(named or policy.spec, ids, of_row, left_out)
    if samples.nothing_to_rank and guide_inputs is None:
        raise ModelError(
            f"{policy.spec}: {samples.nothing_to_rank}; does the policy sample (is its temperature "
            "ignored?), and does it write?"
        )
    return samples


def _all_drawn(
    policy: Policy, drawn: Mapping[tuple[str, int], Sample | NotDrawn], total: int
) -> dict[tuple[str, int], Sample]:
    samples = {place: it for place, it in drawn.items() if isinstance(it, Sample)}
    failed = [it for it in drawn.values() if isinstance(it, NotDrawn)]
    if not failed:
        return samples
    reasons = "; ".join(sorted({it.reason for it in failed}))
    problem = f"{policy.spec}: {len(failed)} of {total} samples were not drawn ({reasons})"
    if any(it.outage for it in failed):
        raise EndpointError(f"{problem}; what came is kept, run the same command again")
    raise ModelError(f"{problem}; take those questions out of the file, or choose another policy")
