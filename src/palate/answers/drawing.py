"""Answers of a policy to every question: drawn once, kept as they come, read by many scorers."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from palate.answers.samples import (
    GuideInput,
    MissingSamples,
    Policy,
    Sample,
    Samples,
    build_policy,
    check_number,
    load_samples,
)
from palate.benchmarks import Dataset
from palate.engines import Reply
from palate.engines.language_model import TOO_LONG
from palate.errors import EndpointError, ModelError, UsageError
from palate.evaluation import Progress, Work, make_rows
from palate.prompts import render
from palate.records import Context, Message, Messages, Part, Question
from palate.runs import slug
from palate.seeding import digest
from palate.stores import Store

DRAWN = 16
"""Answers to a question that are drawn where no number is given."""
ShownParts = Callable[[Question], tuple[Part, ...]]


class NotDrawn(NamedTuple):
    """Why there is no sample of this number; it is not kept, and the next call asks again."""

    reason: str
    outage: bool = False
    """An endpoint gave no answer, so that asking later may help."""


def samples_of(
    policy: str | Path | Samples, pairs: Dataset, n: int | None, work: Work, *, context: str
) -> Samples:
    """Return n answers to every row; what a policy is drawn of is written under the work's root.

    Raises what `draw_samples`, `load_samples` and `Samples.first` do.
    """
    if isinstance(policy, Path):
        return load_samples(policy, pairs, n, work.session.quoting)
    if isinstance(policy, Samples):
        return policy if n is None else policy.first(n)
    session, settings = work.session, work.settings
    built = build_policy(policy, session, settings)
    shown_parts = shown_to_policy(work.context(context), pairs, settings.seed)
    named = built.spec if shown_parts is None else f"{built.spec} shown {context}"
    named = named if settings.seed == 0 else f"{named} seed {settings.seed}"
    n, progress = DRAWN if n is None else n, work.start(f"sampling {named}")
    drawn = draw_samples(built, pairs, n, session.store, shown_parts, progress, named=named)
    if work.root is not None:
        file = f"{slug(named)}-{drawn.content[:8]}.jsonl"
        drawn.save(work.root / slug(f"{pairs.name} samples") / file)
    return drawn


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
        read = None if guide_inputs is None else guide_inputs[k]
        key: str | None = None
        if guide_inputs is None or read is not None:
            request = MissingSamples(policy_prompt(row, shown_parts), tuple(range(n)), read)
            key = sample_key(policy, request)
            requests[key] = request
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


def draw_prompts(
    policy: Policy,
    prompts: Sequence[Messages],
    numbers: int | Sequence[Sequence[int]],
    store: Store,
    progress: Progress | None = None,
) -> list[dict[int, Sample | NotDrawn]]:
    """Return the samples of each prompt by their numbers, drawing what is not kept yet.

    `numbers` is how many each prompt gets, 0 on, or which each gets. Equal prompts share samples. A
    prompt that is too long, refused or meets an outage stops no other: it has a reason. Raises
    `EndpointError` where going on is pointless, such as a key or all requests refused; what came is
    kept.
    """
    wanted = [range(numbers)] * len(prompts) if isinstance(numbers, int) else numbers
    keys = [sample_key(policy, MissingSamples(prompt, ())) for prompt in prompts]
    requests: dict[str, MissingSamples] = {}
    for key, prompt, some in zip(keys, prompts, wanted, strict=True):
        before = requests[key].numbers if key in requests else ()
        requests[key] = MissingSamples(prompt, tuple(sorted({*before, *some})))
    drawn = draw_requests(policy, requests, store, progress)
    return [{n: drawn[key, n] for n in some} for key, some in zip(keys, wanted, strict=True)]


def shown_to_policy(context: Context, pairs: Dataset, seed: int) -> ShownParts | None:
    """Return what a context shows the policy of each row's user; None where that is nothing.

    Raises `UsageError` for a context that shows gold, and for one that shows several strangers.
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
        problem = "answers are drawn and scored under one stranger; no draws"
        raise UsageError(f"{command}: {spec}: {problem}")


def refuse_outages(policy: Policy, replies: Iterable[Mapping[int, Sample | NotDrawn]]) -> None:
    """Raise `EndpointError` where an endpoint did not answer a prompt of these replies."""
    every = [reply for numbered in replies for reply in numbered.values()]
    reasons = [reply.reason for reply in every if isinstance(reply, NotDrawn) and reply.outage]
    if reasons:
        raise EndpointError(
            f"{policy.spec}: {len(reasons)} of {len(every)} replies did not come "
            f"({'; '.join(sorted(set(reasons)))}); what came is kept, run the same command again"
        )


def draw_requests(
    policy: Policy,
    requests: Mapping[str, MissingSamples],
    store: Store,
    progress: Progress | None = None,
    *,
    whole: bool = False,
) -> dict[tuple[str, int], Sample | NotDrawn]:
    """Return the samples of requests by key and number, each kept in the store as it comes.

    With `whole` nothing is drawn where a prompt is too long. A guided policy's requests have equal
    numbers, 0 on.
    """
    documents = store.documents("samples")
    drawn: dict[tuple[str, int], Sample | NotDrawn] = {}
    for key, request in requests.items():
        for number in request.numbers:
            earlier = documents.get_json(digest(key, number))
            if earlier is not None:
                drawn[key, number] = Sample.read(earlier)
    total = sum(len(request.numbers) for request in requests.values())
    missing = list(_missing(requests, drawn, getattr(policy, "rows", None)))
    wanted = [request for _, request in missing]
    if whole and hasattr(policy, "too_long") and (long := policy.too_long(wanted)):
        places = [(missing[k][0], number) for k in long for number in wanted[k].numbers]
        return drawn | dict.fromkeys(places, NotDrawn(TOO_LONG))
    for k, number, reply in policy.draw(wanted) if wanted else ():
        place = missing[k][0], number
        if isinstance(reply, Reply) and reply.failure is not None:
            drawn[place] = NotDrawn(reply.failure, reply.outage)
        elif place in drawn:
            continue  # drawn again beside what was missing
        else:
            sample = reply if isinstance(reply, Sample) else Sample(reply.text, reply.cut_off)
            drawn[place] = sample
            # Anew: a policy's fingerprint changes where its endpoint refuses a seed.
            documents.put_json(digest(sample_key(policy, wanted[k]), number), sample.document())
        if progress is not None:
            progress(len(drawn), total)
    return drawn


def _missing(
    requests: Mapping[str, MissingSamples], known: Container[tuple[str, int]], rows: int | None
) -> Iterator[tuple[str, MissingSamples]]:
    """Yield (key, what to draw of it); `rows` is how many a guided policy writes together.

    What is computed together moves the last digits, so a batch must be the same after a kill. It is
    made of all requests in their order; where any of it is missing, all its prompts are drawn from
    the first number on that is missing anywhere in it. A policy gives a batch by falling numbers:
    until its last sample is kept, that first number stays missing.
    """
    keys = list(requests)
    if rows is None:
        for batch, (key, request) in enumerate(requests.items()):
            numbers = tuple(k for k in request.numbers if (key, k) not in known)
            if numbers:
                yield key, request._replace(numbers=numbers, batch=batch)
        return
    n = len(requests[keys[0]].numbers) if keys else 1
    width, batch = max(1, rows // n), 0
    for start in range(0, len(keys), width):
        some = keys[start : start + width]
        for first in range(0, n, rows):
            block = range(first, min(first + rows, n))
            lacking = (k for k in block if any((key, k) not in known for key in some))
            numbers = tuple(range(next(lacking, block.stop), block.stop))
            for key in some if numbers else ():
                yield key, requests[key]._replace(numbers=numbers, batch=batch)
            batch += 1


def _all_drawn(
    policy: Policy, drawn: Mapping[tuple[str, int], Sample | NotDrawn], total: int
) -> dict[tuple[str, int], Sample]:
    failed = [reply for reply in drawn.values() if isinstance(reply, NotDrawn)]
    if not failed:
        return {place: reply for place, reply in drawn.items() if isinstance(reply, Sample)}
    reasons = "; ".join(sorted({reply.reason for reply in failed}))
    problem = f"{policy.spec}: {len(failed)} of {total} samples were not drawn ({reasons})"
    if any(reply.outage for reply in failed):
        raise EndpointError(f"{problem}; what came is kept, run the same command again")
    raise ModelError(f"{problem}; take those questions out of the file, or choose another policy")


def sample_key(policy: Policy, request: MissingSamples) -> str:
    """Return what samples are kept by, with their number: policy, prompt, and what else is read."""
    plain = [(message.role, message.content) for message in request.prompt]
    read = () if request.guide_input is None else request.guide_input.identity
    return digest("sampled", policy.fingerprint, plain, *read)
