"""The critic: a linear function of what the policy knows before it chooses a token."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save

from palate.errors import ModelError
from palate.files import write_whole
from palate.models.loading import fill

FILE = "value_head.safetensors"


class ValueHead(torch.nn.Module):
    """V(s) = w · h(s) + b; h is the last hidden state of the policy's decoder, after its norm.

    It starts as 0, in float32 whatever the policy computes in. The hidden state is detached: the
    value loss fits the critic, and only the policy loss moves the policy.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(width, 1)
        torch.nn.init.zeros_(self.linear.weight)
        torch.nn.init.zeros_(self.linear.bias)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return V of every position (answers × positions) of hidden states (… × width)."""
        with torch.autocast(hidden.device.type, enabled=False):
            values: torch.Tensor = self.linear(hidden.detach().float())
        return values.squeeze(-1)

    @contextmanager
    def reading(self, model: Any) -> Iterator[list[torch.Tensor]]:
        """Give a list that gets the values of all positions at each forward pass of a model.

        A hook on the decoder: TRL multiplies by the output's weights itself, and never calls
        `lm_head` or asks for hidden states.
        """
        passes: list[torch.Tensor] = []

        def note(module: Any, inputs: Any, output: Any) -> None:
            passes.append(self(output.last_hidden_state))

        hook = model.get_decoder().register_forward_hook(note)
        try:
            yield passes
        finally:
            hook.remove()

    def save(self, folder: Path) -> None:
        """Write the weights into a checkpoint's folder."""
        weights = {name: it.detach().cpu().contiguous() for name, it in self.state_dict().items()}
        write_whole(folder / FILE, save(weights))

    def load(self, folder: Path) -> None:
        """Read the weights of a checkpoint; raises `ModelError` where it has none that fit."""
        try:
            fill(self, folder / FILE)
        except (OSError, RuntimeError, SafetensorError) as error:
            raise ModelError(
                f"{folder / FILE}: no critic of this policy; resume from a checkpoint of PPO"
            ) from error


def completion_values(passes: list[torch.Tensor], tokens: int) -> torch.Tensor:
    """Return V of the states in which the last `tokens` were chosen: one position earlier each.

    >>> completion_values([torch.tensor([[10.0, 11.0, 12.0, 13.0]])], 2).tolist()
    [[11.0, 12.0]]
    """
    return torch.cat(passes)[:, -tokens - 1 : -1]
