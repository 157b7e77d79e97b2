"""Forward passes: which sequences go through the model together, and how much at a time.

Loads are of like size and keep every thread busy. A load is a tree of its sequences where the model
can read one, else batches padded to their longest; a sequence gets what it would get alone.
"""

from __future__ import annotations

import inspect
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from palate.engines.local_attention import Layout, reading
from palate.engines.local_kernels import Arriving, KeysValues, fetch, on_card, placed
from palate.engines.local_loading import LoadedModel, Outputs, Reduce
from palate.engines.local_threads import map_ordered, workers
from palate.engines.local_tree import Node, Pack, branches, build_tree, packs
from palate.errors import ResourceError

if TYPE_CHECKING:
    from torch import Tensor

Result = TypeVar("Result")
AT_ONCE = 64
"""Groups that are looked at together for beginnings they share."""
CPU_TOKENS = 2048
"""Tokens of a pass on a CPU: more are no faster and leave the caches."""
TOGETHER = 1.1
"""What several threads on one product cost over one thread each."""
TRUNK, BRANCHES = 256, 512
"""Tokens that a root and its branches need for the branches to be read at the same time."""
NO_MEMORY = ("out of memory", "not enough memory", "can't allocate memory", "status_alloc_failed")
"""The last is what libraries of CUDA say that find no memory beside the tensors."""
SMALLEST = 64
"""Tokens a pass must be able to hold; with less, the machine is too small for the model."""


class TokenSpan(NamedTuple):
    """A sequence, and the tokens whose outputs are wanted: from `start` up to `stop`."""

    ids: Sequence[int]
    start: int
    stop: int


Group = Sequence[TokenSpan]
Load = list[tuple[int, Group]]


class Wanted(NamedTuple):
    """What is read by which model: its last hidden states, or with `logits` its own logits."""

    local: LoadedModel
    reduce: Reduce
    """Makes what is wanted of them."""
    logits: bool = False
    there: bool = False
    """Whether results stay where the model is, else they come to the processor."""


def read(wanted: Wanted, groups: Iterable[Group]) -> Outputs:
    """Yield (position of the group, what is wanted of each of its sequences).

    A card has its next load before the results of the one before are waited for.
    """
    local = wanted.local
    under_way: deque[tuple[Load, Arriving]] = deque()

    def next_arrived() -> Outputs:
        load, arriving = under_way.popleft()
        results = iter(arriving())
        yield from ((k, list(islice(results, len(group)))) for k, group in load)

    for load, outputs in _loads_read(wanted, groups):
        arriving = partial(list, outputs) if wanted.there else fetch(outputs, local.device)
        under_way.append((load, arriving))
        if len(under_way) > on_card(local.device):  # there one load ahead
            yield from next_arrived()
    while under_way:
        yield from next_arrived()


def _loads_read(wanted: Wanted, groups: Iterable[Group]) -> Iterator[tuple[Load, list[Tensor]]]:
    local, numbered = wanted.local, iter(enumerate(groups))
    with local.turns.of():  # meanwhile nobody has set another number of threads
        side_by_side = workers(local.torch, local.device)
    while some := list(islice(numbered, AT_ONCE)):
        most = share_of(local, side_by_side)
        target = min(most, CPU_TOKENS) if local.device == "cpu" else most
        loads = cut(some, target, side_by_side)
        exact = local.dtype == local.torch.float32
        apart = loads_apart(loads, side_by_side, all_alike=exact)
        jobs = ((load, partial(read_load, wanted, load, side_by_side)) for load in loads[:apart])
        read_apart = map_ordered(local.torch, local.device, jobs, local.turns) if apart else ()
        yield from read_apart
        for load in loads[apart:]:  # one after another, on all threads
            with local.turns.of():
                outputs = read_load(wanted, load, 1)
            yield load, outputs


def loads_apart(loads: Sequence[Load], side_by_side: int, *, all_alike: bool = False) -> int:
    """Return how many of the loads, largest first, are read on one thread each.

    The rest is read on all threads, which costs more but leaves none of them waiting at the end.
    With `all_alike`, which float32 keeps its last bits by, it is all of them or none.
    """
    sizes = [
        sum(unique_tokens([span.ids for span in group]) for _, group in load) for load in loads
    ]
    lanes, left = [0] * side_by_side, sum(sizes)
    times = [TOGETHER * left / side_by_side]
    for size in sizes:
        lanes[lanes.index(min(lanes))] += size
        left -= size
        times.append(max(lanes) + TOGETHER * left / side_by_side)
    choices = (0, len(loads)) if all_alike else range(len(times))
    return min(choices, key=lambda apart: (times[apart], -apart))


def cut(groups: Load, target: int, multiple: int) -> list[Load]:
    """Deal groups into loads of about `target` tokens, neighbours in the tree together.

    Loads come largest first and, where there are enough groups, in a number that keeps all workers
    busy to the end.
    """
    ordered = sorted(groups, key=lambda it: [tuple(span.ids) for span in it[1][:1]])
    sizes = [unique_tokens([span.ids for span in group]) for _, group in ordered]
    total = sum(sizes)
    number = -(-total // max(target, 1))
    number = -(-number // multiple) * multiple
    share = total / max(number, 1)
    loads: list[tuple[int, Load]] = []
    for group, size in zip(ordered, sizes, strict=True):
        if loads and loads[-1][0] + size / 2 <= share:
            loads[-1] = (loads[-1][0] + size, [*loads[-1][1], group])
        else:
            loads.append((size, [group]))
    return [load for _, load in sorted(loads, key=lambda it: -it[0])]


def unique_tokens(sequences: Sequence[Sequence[int]]) -> int:
    """Return how many tokens a tree of these sequences holds.

    >>> unique_tokens([list(range(100)), [*range(90), 0, 1]])
    102
    """
    return sum(root.size for root in build_tree(sequences))


def read_load(wanted: Wanted, load: Load, side_by_side: int) -> list[Tensor]:
    """Return what is wanted of each sequence, group after group."""
    local = wanted.local
    sequences = [span for _, group in load for span in group]
    reach = local.read_mode.reach
    tree = local.read_mode.tree and all(reach is None or len(s.ids) <= reach for s in sequences)
    run = _read_tree if tree else _read_dense
    results: list[Any] = [None] * len(sequences)
    for alike in local.regimes.groups([len(span.ids) for span in sequences]):
        with local.torch.inference_mode():
            some = [sequences[k] for k in alike]
            outputs = as_it_fits(local, partial(run, wanted, some, side_by_side))
        for k, output in zip(alike, outputs, strict=True):
            results[k] = output
    return results


def _read_tree(wanted: Wanted, sequences: Sequence[TokenSpan], side_by_side: int) -> list[Tensor]:
    torch, local = wanted.local.torch, wanted.local
    pieces_of: list[list[Any]] = [[] for _ in sequences]
    longest = max((len(span.ids) for span in sequences), default=0)
    roots = build_tree([span.ids for span in sequences])
    share = share_of(local, side_by_side)
    for pack, outputs in _outputs_of(wanted, roots, share, longest):
        wants = list(_wanted_rows(pack, sequences))
        if not wants:
            continue
        rows, following = (
            list(chain.from_iterable(it)) for it in list(zip(*wants, strict=True))[1:]
        )
        chosen, behind = local.tensor(rows, following)
        reduced = wanted.reduce(outputs[chosen], behind)
        pieces = reduced.split([len(rows) for _, rows, _ in wants])
        for (k, _, _), piece in zip(wants, pieces, strict=True):
            pieces_of[k].append(piece)
    nothing = torch.empty(0, device=local.device)
    return [torch.cat(pieces) if pieces else nothing for pieces in pieces_of]


def _outputs_of(
    wanted: Wanted, roots: Sequence[Node], share: int, length: int
) -> Iterator[tuple[Pack, Tensor]]:
    local = wanted.local
    lanes = workers(local.torch, local.device)
    size = sum(root.size for root in roots)

    def run(pack: Pack, *past: Sequence[KeysValues]) -> tuple[Tensor, list[KeysValues]]:
        layout = Layout(pack.segments, past, pack.keep, local.layers, length)
        layout.many_runs = local.many_runs
        with local.torch.inference_mode():  # which holds for one thread
            return forward_pack(local, pack, layout, wanted.logits), layout.cached

    if lanes > 1 and size <= share and all(_branches_pay(root) for root in roots):
        for trunk, dealt in branches(roots, lanes):
            outputs, cached = run(trunk)
            yield trunk, outputs
            jobs = ((pack, partial(run, pack, cached)) for pack in dealt)
            for pack, (outputs, _) in map_ordered(local.torch, local.device, jobs):
                yield pack, outputs
        return
    stack: list[list[KeysValues]] = []
    for pack in packs(roots, share):
        del stack[pack.depth :]
        outputs, cached = run(pack, *stack)
        yield pack, outputs
        if pack.keep is not None:
            stack.append(cached)


def _branches_pay(root: Node) -> bool:
    below = root.size - len(root.tokens)
    return len(root.children) > 1 and len(root.tokens) >= TRUNK and below >= BRANCHES


def forward_pack(local: LoadedModel, pack: Pack, layout: Layout, logits: bool) -> Tensor:
    """Return the outputs at a pack's tokens."""
    tokens, positions = local.tensor(pack.tokens), local.tensor(pack.positions)
    return forward(local, tokens, positions, layout, logits)


def forward(
    local: LoadedModel, tokens: Tensor, positions: Tensor, layout: Layout, logits: bool = False
) -> Tensor:
    """Return the outputs (tokens × width) of one row of tokens that follow a layout."""
    # A mask of ones, or transformers takes positions that start anew for sequences packed apart.
    mask = local.torch.ones_like(tokens)
    inputs = {"input_ids": tokens, "position_ids": positions, "attention_mask": mask}
    with reading(layout):
        return _outputs(local, inputs, logits)[0]


def _outputs(local: LoadedModel, inputs: dict[str, Any], logits: bool) -> Tensor:
    model = local.model if logits else local.model.base_model
    if "use_cache" in inspect.signature(model.forward).parameters:
        inputs["use_cache"] = False
    output = model(**inputs)
    found: Tensor = output.logits if logits else output.last_hidden_state
    return found


def _wanted_rows(
    pack: Pack, sequences: Sequence[TokenSpan]
) -> Iterator[tuple[int, range, list[int]]]:
    """Yield, for each run of wanted tokens, whose it is, its rows, and the tokens that follow."""
    for segment in pack.segments:
        shift = segment.start - segment.offset
        for k in segment.sequences:
            ids, start, stop = sequences[k]
            low, high = max(start, segment.offset), min(stop, segment.stop - shift)
            if low < high:
                yield k, range(low + shift, high + shift), _following(ids, low, high)


def _following(ids: Sequence[int], start: int, stop: int) -> list[int]:
    # The token behind each; −1 behind the last of all.
    return [*ids[start + 1 : stop + 1], -1][: stop - start]


def _read_dense(wanted: Wanted, sequences: Sequence[TokenSpan], side_by_side: int) -> list[Tensor]:
    local = wanted.local
    reduced: list[Any] = [None] * len(sequences)
    budget = 0 if local.read_mode.alone else share_of(local, side_by_side)
    for batch in padded([len(span.ids) for span in sequences], budget):
        inputs = pad(local, [sequences[k].ids for k in batch], 0)
        outputs = _outputs(local, inputs, wanted.logits)
        for row, k in enumerate(batch):
            ids, start, stop = sequences[k]
            (following,) = local.tensor(_following(ids, start, stop))
            reduced[k] = wanted.reduce(outputs[row, start:stop], following)
    return reduced


def share_of(local: LoadedModel, side_by_side: int) -> int:
    """Return how many of the tokens at a time one of several workers may hold."""
    return max(local.budget // side_by_side, SMALLEST)


def as_it_fits(local: LoadedModel, work: Callable[[], Result]) -> Result:
    """Return what work gives; out of memory it is done again with half the tokens at a time."""
    while True:
        try:
            return work()
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            problem = f"{local.reference}: out of memory"
            if local.budget < 2 * SMALLEST:
                raise ResourceError(f"{problem} at {local.budget} tokens a batch") from error
        local.budget //= 2
        text = "%s; going on with %d tokens at a time"
        logging.getLogger("palate").warning(text, problem, local.budget)
        if local.device != "cpu":
            local.torch.accelerator.empty_cache()


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error says that memory ran out."""
    message = str(error).lower()
    return isinstance(error, MemoryError) or any(sign in message for sign in NO_MEMORY)


@contextmanager
def within_memory(otherwise: str) -> Iterator[None]:
    """Raise `ResourceError` with these words where memory runs out meanwhile."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise ResourceError(otherwise) from error


def padded(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield batches of positions, longest first, within the budget of padded tokens or alone."""
    batch: list[int] = []
    for k in sorted(range(len(lengths)), key=lambda k: (-lengths[k], k)):
        if batch and (len(batch) + 1) * lengths[batch[0]] > budget:
            yield batch
            batch = []
        batch.append(k)
    if batch:
        yield batch


def pad_id(local: LoadedModel) -> int | None:
    """Return the token that a model pads with; None where it names none that it can read."""
    token = getattr(local.model.config.get_text_config(), "pad_token_id", None)
    rows = local.model.get_input_embeddings().weight.shape[0]
    return token if token is not None and 0 <= token < rows else None


def pad(local: LoadedModel, sequences: Sequence[Sequence[int]], token: int) -> dict[str, Any]:
    """Return tokens and mask of a batch padded on the right."""
    torch = local.torch
    rows = [torch.tensor(list(ids)) for ids in sequences]
    tokens, mask = (
        torch.nn.utils.rnn.pad_sequence(some, batch_first=True, padding_value=padding)
        for some, padding in ((rows, token), ([torch.ones_like(row) for row in rows], 0))
    )
    tokens, mask = (placed(it, local.device) for it in (tokens, mask))
    return {"input_ids": tokens, "attention_mask": mask}
