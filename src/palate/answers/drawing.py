"""Answers of a policy to every question: drawn once, kept as they come, read by many scorers."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence

from palate.answers.policies import GuideInput, MissingSamples, Policy, Sample
from palate.answers.samples import Samples, check_number
from palate.benchmarks import Dataset
from palate.engines import Reply
from palate.errors import EndpointError, ModelError, UsageError
from palate.evaluation import Progress, make_rows
from palate.prompts import render
from palate.records import Context, Message, Part, Question
from palate.seeding import digest
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
    documents = store.documents("samples")
    requests: dict[str, tuple[tuple[Message, ...], GuideInput | None]] = {}
    keys: list[str | None] = []
    for k, row in enumerate(pairs.rows):
        prompt = policy_prompt(row, shown_parts)
        plain = [(message.role, message.content) for message in prompt]
        read = None if guide_inputs is None else guide_inputs[k]
        if guide_inputs is not None and read is None:
            keys.append(None)
            continue
        more = () if read is None else read.identity
        key = digest("sampled", policy.fingerprint, plain, *more)
        requests[key] = prompt, read
        keys.append(key)
    known: dict[tuple[str, int], Sample] = {}
    for key in requests:
        for number in range(n):
            earlier = documents.get_json(digest(key, number))
            if earlier is not None:
                known[key, number] = Sample.read(earlier)
    rows: int | None = getattr(policy, "rows", None)
    missing = list(_missing(list(requests), n, known, rows))
    wanted = [
        MissingSamples(requests[key][0], numbers, requests[key][1], batch)
        for batch, key, numbers in missing
    ]
    failed: list[Reply] = []
    total = len(requests) * n
    for k, number, reply in policy.draw(wanted) if wanted else ():
        if isinstance(reply, Reply) and reply.failure is not None:
            failed.append(reply)
            continue
        _, key, _ = missing[k]
        if (key, number) in known:
            continue  # drawn again beside what was missing
        sample = reply if isinstance(reply, Sample) else Sample(reply.text, reply.cut_off)
        known[key, number] = sample
        documents.put_json(digest(key, number), sample.document())
        if progress is not None:
            progress(len(known), total)
    _refuse(policy, failed, total)
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


def _missing(
    keys: Sequence[str], n: int, known: Container[tuple[str, int]], rows: int | None
) -> Iterator[tuple[int, str, tuple[int, ...]]]:
    """Yield (batch, key, numbers to draw); `rows` is how many a guided policy writes together.

    What is computed together moves the last digits, so a batch must be the same after a kill. It is
    made of all requests in their order; where any of it is missing, all its prompts are drawn from
    the first number on that is missing anywhere in it. A policy gives a batch by falling numbers:
    until its last sample is kept, that first number stays missing.
    """
    if rows is None:
        for batch, key in enumerate(keys):
            numbers = tuple(k for k in range(n) if (key, k) not in known)
            if numbers:
                yield batch, key, numbers
        return
    width, batch = max(1, rows // n), 0
    for start in range(0, len(keys), width):
        some = keys[start : start + width]
        for first in range(0, n, rows):
            block = range(first, min(first + rows, n))
            lacking = (k for k in block if any((key, k) not in known for key in some))
            numbers = tuple(range(next(lacking, block.stop), block.stop))
            yield from ((batch, key, numbers) for key in some if numbers)
            batch += 1


def _refuse(policy: Policy, failed: Sequence[Reply], total: int) -> None:
    if not failed:
        return
    reasons = "; ".join(sorted({str(reply.failure) for reply in failed}))
    said = f"{policy.spec}: {len(failed)} of {total} samples were not drawn ({reasons})"
    if any(one.outage for one in failed):
        raise EndpointError(f"{said}; what came is kept, run the same command again")
    raise ModelError(f"{said}; take those questions out of the file, or choose another policy")
