"""From hidden states to numbers: log-probabilities, label logits, distributions, pooled rewards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from palate.engines.local.forward import Reduce
from palate.engines.local.loading import LOGIT_ROWS, LoadedModel
from palate.engines.local.memory import halve
from palate.engines.local.padding import pad, pad_id, padded
from palate.errors import ModelError, first_line

if TYPE_CHECKING:
    import torch

CLOSE = {"float32": 1e-3, "bfloat16": 0.25, "float16": 0.05}


class Head:
    """A language model's head, applied to the rows that are wanted and to no others.

    Where the model does more to its logits than palate knows (asked of the model itself), `apart`
    is False, and what comes in are the model's own logits.
    """

    def __init__(self, local: LoadedModel) -> None:
        self.torch = local.torch
        self.linear = local.model.get_output_embeddings()
        config = local.model.config.get_text_config()
        self.cap = getattr(config, "final_logit_softcapping", None)
        self.scale = getattr(config, "logit_scale", None) or 1.0  # Cohere
        self.scale /= getattr(config, "logits_scaling", None) or 1.0  # Granite
        self.apart = self._is_linear(local)

    def _is_linear(self, local: LoadedModel) -> bool:
        if self.linear is None or not hasattr(self.linear, "weight"):
            return False
        tokens = self.torch.tensor([[1, 2, 3, 4]], device=local.device)
        with self.torch.inference_mode():
            own = local.model(input_ids=tokens).logits[0].float()
            ours = self._logits(local.model.base_model(input_ids=tokens).last_hidden_state[0])
        close = CLOSE[str(local.dtype).removeprefix("torch.")]
        return bool(ours.shape == own.shape and (ours - own).abs().max() <= close)

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self._shaped(self.linear(hidden).float())

    def _shaped(self, logits: torch.Tensor) -> torch.Tensor:
        logits = logits * self.scale if self.scale != 1 else logits
        return self.cap * self.torch.tanh(logits / self.cap) if self.cap else logits

    def _chunks(self, outputs: torch.Tensor) -> Iterator[tuple[slice, torch.Tensor]]:
        for first in range(0, len(outputs), LOGIT_ROWS):
            rows = slice(first, first + LOGIT_ROWS)
            yield rows, self._logits(outputs[rows]) if self.apart else outputs[rows].float()

    def log_probabilities(
        self, outputs: torch.Tensor, following: torch.Tensor, width: int | None = None
    ) -> torch.Tensor:
        """Return log p of the token that follows each row, among the first `width` ids."""
        entropy = self.torch.nn.functional.cross_entropy
        found = [
            -entropy(logits[:, :width], following[rows], reduction="none")
            for rows, logits in self._chunks(outputs)
        ]
        joined: torch.Tensor = self.torch.cat(found)
        return joined.cpu()

    def logits(self, outputs: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        """Return the logits of every token after each row, where the model is."""
        del following
        joined: torch.Tensor = self.torch.cat([logits for _, logits in self._chunks(outputs)])
        return joined

    def distributions(self, outputs: torch.Tensor) -> torch.Tensor:
        """Return log p of every token after each row, float32, where the model is."""
        logs = [self.torch.log_softmax(logits, dim=-1) for _, logits in self._chunks(outputs)]
        joined: torch.Tensor = self.torch.cat(logs)
        return joined

    def of_labels(self, labels: Sequence[int]) -> Reduce:
        """Return what makes the logits of these labels, and behind them log Σ exp of all tokens'.

        Labels are computed in float32 by themselves: in bfloat16 logits near 20 step by 0.125,
        which makes ties.
        """
        if not self.apart:
            return lambda outputs, following: self._with_total(
                outputs[:, list(labels)].float(), outputs
            )
        ids = self.torch.tensor(list(labels), device=self.linear.weight.device)
        weight = self.linear.weight[ids].float()
        bias = getattr(self.linear, "bias", None)
        shift: Any = bias[ids].float() if bias is not None else 0.0

        def reduce(outputs: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
            del following
            return self._with_total(self._shaped(outputs.float() @ weight.T + shift), outputs)

        return reduce

    def _with_total(self, logits: torch.Tensor, outputs: torch.Tensor) -> torch.Tensor:
        totals = [chunk.logsumexp(dim=-1) for _, chunk in self._chunks(outputs)]
        joined: torch.Tensor = self.torch.cat([logits, self.torch.cat(totals)[:, None]], dim=-1)
        return joined.cpu()


def pooled(
    local: LoadedModel, sequences: Sequence[Sequence[int]]
) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield (position, the logits of a classification model's own head)."""
    token = None if local.read_mode.alone else pad_id(local)
    todo = list(range(len(sequences)))
    while todo:
        budget = local.budget if token is not None else 0
        lengths = [len(sequences[k]) for k in todo]
        side = list(local.sides.apart(lengths))[-1]
        batch = next(padded([lengths[k] for k in side], budget))
        rows = [todo[side[k]] for k in batch]
        try:
            with local.turns.of(), local.torch.inference_mode():
                inputs = pad(local, [sequences[k] for k in rows], token or 0)
                logits = local.model(**inputs).logits
        except (RuntimeError, MemoryError) as error:
            halve(local, error)
            continue
        except (ValueError, TypeError) as error:  # such as one that looks for a token in vain
            raise ModelError(
                f"{local.reference}: its own head refuses a conversation ({first_line(error)}); "
                "mend its chat template (--chat-template) or config.json"
            ) from error
        if logits.ndim < 2:
            logits = logits.reshape(-1, 1)
        if logits.shape[:-1] != (len(rows),):
            raise ModelError(
                f"{local.reference}: logits {tuple(logits.shape)}; expected ({len(rows)}, outputs)"
            )
        for row, k in enumerate(rows):
            yield k, logits[row].float().cpu()
        todo = [k for k in todo if k not in set(rows)]
