"""What a checkpoint file holds, whatever its format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

Format = Literal[
    "torch", "torch-legacy", "safetensors", "npz", "keras", "sb3", "sharded-torch",
    "sharded-safetensors",
]  # fmt: skip
States = dict[str, dict[str, Tensor]]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The contents of a checkpoint file.

    Args:
        path: where it was read from.
        format: the kind of file, by its content.
        tensors: the main network's tensors by name, in the file's order where it has one.
        others: every other group of tensors by its place in the file: optimiser state,
            moving averages, further networks.
        config: plain values: metadata, epochs, hyperparameters.
        prefix: what wrappers such as ``DataParallel`` had put before every name of
            ``tensors``; it was removed.

    >>> import torch
    >>> Checkpoint(Path("a.pt"), "torch", {"0.weight": torch.ones(1)}, prefix="module.").original
    {'module.0.weight': tensor([1.])}
    """

    path: Path
    format: Format
    tensors: dict[str, Tensor]
    others: States = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    prefix: str = ""

    @property
    def original(self) -> dict[str, Tensor]:
        """The main network's tensors under the names they have in the file."""
        return {self.prefix + name: tensor for name, tensor in self.tensors.items()}

    def __repr__(self) -> str:
        others = f", others {', '.join(self.others)}" if self.others else ""
        return f"Checkpoint({self.path.name}, {self.format}, {len(self.tensors)} tensors{others})"
