"""A network out of a file, in the form in which networks of different files are compared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor

from weightspace.graph import GraphSpec, spec_to_dict

_KEPT = {"dtype", "kind", "reason", "role", "side"}
"""Keys of a spec's dictionary whose texts are no names."""
_DROPPED = {"activation", "dtype", "mixed", "mixings", "reason", "rescalings", "weighings"}
"""What two files of one architecture may tell or not."""


@dataclass(frozen=True, eq=False)
class Network:
    """A network to be compared with others; its values are single precision.

    Args:
        file: where it was read, by its path in the folder.
        key: its name within the file; empty if it is alone there.
        state: its tensors.
        spec: its structure; None if names and shapes do not tell it.
        sha256: of its values, see :func:`values_digest`.
    """

    file: str
    key: str
    state: Mapping[str, Tensor]
    spec: GraphSpec | None
    sha256: str = ""

    @classmethod
    def of(
        cls,
        state: Mapping[str, Tensor],
        spec: GraphSpec | None,
        *,
        file: str = "network",
        key: str = "",
    ) -> Network:
        """Bring tensors of any floating type to single precision.

        >>> Network.of({"w": torch.ones(2, 2, dtype=torch.float16)}, None).state["w"].dtype
        torch.float32
        """
        digest = values_digest(state[name] for name in tensor_names(state, spec))
        plain = {name: as_single(tensor) for name, tensor in state.items()}
        return cls(file, key, plain, spec, digest)

    @property
    def name(self) -> str:
        """What people call it: the file, and the key if there is one."""
        return f"{self.file}:{self.key}" if self.key else self.file

    @cached_property
    def structure(self) -> str:
        """A digest that is equal for networks of one architecture, whatever names they use."""
        if self.spec is not None:
            return structure_of(self.spec)
        shapes = sorted((name, tuple(tensor.shape)) for name, tensor in self.state.items())
        return hashlib.sha256(repr(shapes).encode()).hexdigest()[:16]

    def names(self) -> list[str]:
        """The names of its tensors in the order of computation, where that is known."""
        return tensor_names(self.state, self.spec)

    def named_as(self, other: Network) -> dict[str, Tensor]:
        """Its tensors under the names of a network of the same structure."""
        pairs = zip(other.names(), self.names(), strict=True)
        return {theirs: self.state[own] for theirs, own in pairs}


def tensor_names(state: Mapping[str, Tensor], spec: GraphSpec | None) -> list[str]:
    """The names of a network's tensors, in the spec's order or by alphabet."""
    if spec is None:
        return sorted(state)
    return [p.name for p in spec.parameters] + [item.parameter.name for item in spec.left_out]


def as_single(tensor: Tensor) -> Tensor:
    """A tensor of any floating type in single precision; others as they are."""
    plain = tensor.detach().cpu()
    return plain.float() if plain.is_floating_point() else plain


def values_digest(tensors: Iterable[Tensor]) -> str:
    """The SHA-256 of values and shapes, the same for any names and for any type that holds them."""
    digest = hashlib.sha256()
    for tensor in tensors:
        plain = tensor.detach().cpu().double().contiguous()
        digest.update(str(tuple(plain.shape)).encode())
        digest.update(plain.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


@lru_cache(maxsize=1024)
def structure_of(spec: GraphSpec) -> str:
    """A digest of a spec without its names, types, activations and what follows from these.

    >>> from weightspace.graph import chain_spec
    >>> one = chain_spec([2, 3, 1], activations="relu")
    >>> other = chain_spec([2, 3, 1], activations="unknown", layer_names=["a", "b"])
    >>> structure_of(one) == structure_of(other)
    True
    """
    plain = _anonymous(spec_to_dict(spec), "", {})
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]


def _anonymous(value: Any, key: str, numbers: dict[str, int]) -> Any:
    """A spec's dictionary with numbers for names, in the order in which they appear."""
    if isinstance(value, dict):
        return {k: _anonymous(v, k, numbers) for k, v in value.items() if k not in _DROPPED}
    if isinstance(value, list | tuple):
        return [_anonymous(item, key, numbers) for item in value]
    if isinstance(value, str) and key not in _KEPT:
        return numbers.setdefault(value, len(numbers))
    return value
