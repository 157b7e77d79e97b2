"""Samples of a policy by prompt and number, kept as they come; a reason where there is none."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

from palate.answers.policies import Messages, MissingSamples, Policy, Sample
from palate.engines import Reply
from palate.engines.language_model import TOO_LONG
from palate.evaluation import Progress
from palate.seeding import digest
from palate.stores import Store


class NotDrawn(NamedTuple):
    """Why there is no sample of this number; it is not kept, and the next call asks again."""

    reason: str
    outage: bool = False
    """An endpoint gave no answer, so that asking later may help."""


def draw_prompts(
    policy: Policy,
    prompts: Sequence[Messages],
    numbers: int | Sequence[Sequence[int]],
    store: Store,
    progress: Progress | None = None,
) -> list[dict[int, Sample | NotDrawn]]:
    """Return the samples of each prompt by their numbers, drawing what is not kept yet.

    `numbers` is how many each prompt gets, 0 on, or which each gets. Equal prompts share samples. A
    prompt that is too long, refused or meets an outage stops no other: it has a reason.

    Raises `EndpointError` where going on is pointless, such as a key or all requests refused; what
    came is kept.
    """
    wanted = [range(numbers)] * len(prompts) if isinstance(numbers, int) else numbers
    keys = [sample_key(policy, prompt) for prompt in prompts]
    requests: dict[str, MissingSamples] = {}
    for key, prompt, some in zip(keys, prompts, wanted, strict=True):
        before = requests[key].numbers if key in requests else ()
        requests[key] = MissingSamples(prompt, tuple(sorted({*before, *some})))
    drawn = draw_requests(policy, requests, store, progress)
    return [{n: drawn[key, n] for n in some} for key, some in zip(keys, wanted, strict=True)]


def sample_key(policy: Policy, prompt: Messages, *more: object) -> str:
    """Return what samples are kept by, with their number: policy, prompt, and what else is read."""
    plain = [(message.role, message.content) for message in prompt]
    return digest("sampled", policy.fingerprint, plain, *more)


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
        return drawn | {
            (missing[k][0], n): NotDrawn(TOO_LONG) for k in long for n in wanted[k].numbers
        }
    for k, number, reply in policy.draw(wanted) if wanted else ():
        place = missing[k][0], number
        if isinstance(reply, Reply) and reply.failure is not None:
            drawn[place] = NotDrawn(reply.failure, reply.outage)
        elif place in drawn:
            continue  # drawn again beside what was missing
        else:
            sample = reply if isinstance(reply, Sample) else Sample(reply.text, reply.cut_off)
            drawn[place] = sample
            read = wanted[k].guide_input
            kept_by = sample_key(policy, wanted[k].prompt, *(read.identity if read else ()))
            documents.put_json(digest(kept_by, number), sample.document())
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
