"""Sorting a loaded tree of containers into networks, optimiser states and plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from weightspace.errors import FileError
from weightspace.importers.files.contents import States
from weightspace.importers.files.guard import check_tensor

MAIN_NAMES = (
    "state_dict", "model_state_dict", "model", "net", "network", "module", "params", "weights",
)  # fmt: skip
"""Names under which training scripts save the network itself, the most telling first."""
AVERAGES = ("ema", "averag", "shadow", "target", "teacher", "callbacks", "optim")
WRAPPERS = ("module.", "_orig_mod.", "_fsdp_wrapped_module.", "_forward_module.")
"""What DataParallel, torch.compile and others put before names; ``model.`` is an ordinary
attribute of someone's module and stays."""
LEAVES = {
    "weight", "bias", "kernel", "w", "b", "A", "W", "scale", "offset", "gamma", "beta", "mean",
    "var", "running_mean", "running_var", "num_batches_tracked", "embedding",
}  # fmt: skip
"""Names of tensors within one layer: a dictionary of these alone is a layer, not a network."""
LARGEST_TREE = 1_000_000
DEEPEST_TREE = 100
LOOSE = "loose tensors"


class SortedStates(NamedTuple):
    """The main network, every other group of tensors, plain values, and the removed prefix."""

    tensors: dict[str, Tensor]
    others: States
    config: Mapping[str, Any]
    prefix: str


def sort_states(tree: object, subject: object) -> SortedStates:
    """Sort a loaded tree of dictionaries, lists, tensors and plain values.

    A dictionary of tensors is a network, unless it holds networks itself; a dictionary with
    ``state`` and ``param_groups`` is an optimiser's. The main network is the one whose name
    says so (``state_dict``, ``model``, ...), otherwise the first that is no moving average.

    Raises:
        FileError: there is no tensor, or something that is neither a tensor nor plain.
    """
    sorter, tree = _Sorter(subject), _as_mapping(tree, subject)
    sorter.walk("", tree, 0)
    if not sorter.networks:
        held = ", ".join(sorted({type(value).__name__ for value in tree.values()})[:5])
        raise FileError(
            subject,
            expected="tensors of a network",
            found="optimiser state alone" if sorter.others else f"only {held or 'nothing'}",
        )
    main = min(sorter.networks, key=_distance)
    tensors = sorter.networks.pop(main)
    if "" in sorter.networks:
        sorter.others[LOOSE] = sorter.networks.pop("")
    prefix = _shared_prefix(tensors)
    tensors = {name[len(prefix) :]: tensor for name, tensor in tensors.items()}
    return SortedStates(tensors, {**sorter.networks, **sorter.others}, sorter.config, prefix)


def sort_groups(name: str, tree: object, subject: object) -> tuple[States, dict[str, Any]]:
    """Every group of tensors of a tree that is no network of its own, and its plain values.

    Raises:
        FileError: there is something that is neither a tensor nor plain.
    """
    sorter = _Sorter(subject)
    sorter.walk(name, _as_mapping(tree, subject), 0)
    return {**sorter.networks, **sorter.others}, sorter.config


def _as_mapping(tree: object, subject: object) -> Mapping[Any, Any]:
    if isinstance(tree, Tensor):
        return {"tensor": tree}
    if isinstance(tree, list | tuple):
        return dict(enumerate(tree))
    if not isinstance(tree, Mapping):
        raise FileError(
            subject, expected="a dictionary of tensors", found=f"a {type(tree).__name__}"
        )
    return tree


class _Sorter:
    """Walks a tree; collects networks, other groups of tensors, and plain values."""

    def __init__(self, subject: object) -> None:
        self.subject = subject
        self.networks: States = {}
        self.others: States = {}
        self.config: dict[str, Any] = {}
        self._entries = 0

    def walk(self, path: str, node: Mapping[Any, Any], depth: int) -> None:
        """Sort a dictionary that may hold networks."""
        if "state" in node and "param_groups" in node:
            self.others[path or "optimizer"] = dict(self.tensors_in("", node["state"], depth, path))
            self.config[_join(path, "param_groups")] = self.plain(node["param_groups"], depth)
            return
        flat: dict[str, Tensor] = {}
        nested: dict[str, Mapping[Any, Any]] = {}
        for key, value in node.items():
            self.count(depth)
            name = str(key)
            if isinstance(value, Tensor):
                self.add(flat, name, value)
            elif self.holds_tensors(value, depth + 1):
                nested[name] = value if isinstance(value, Mapping) else dict(enumerate(value))
            else:
                self.config[_join(path, name)] = self.plain(value, depth + 1)
        if all(map(_is_layer, nested.values())) and not any(map(_names_network, nested)):
            for name, layer in nested.items():
                for inner, tensor in layer.items():
                    self.add(flat, f"{name}.{inner}", tensor)
            nested = {}
        for name, inner in nested.items():
            self.walk(_join(path, name), inner, depth + 1)
        if flat:
            loose = bool(nested) and _are_few(flat)
            group = self.others if loose else self.networks
            group[_join(path, LOOSE) if loose else path] = flat

    def add(self, group: dict[str, Tensor], name: str, tensor: Tensor) -> None:
        """Add a tensor to a group, after checking it."""
        if name in group:
            raise FileError(self.subject, expected="names that differ", found=f"{name!r} twice")
        group[name] = check_tensor(self.subject, name, tensor)

    def tensors_in(
        self, path: str, node: object, depth: int, root: str
    ) -> Iterator[tuple[str, Tensor]]:
        """Every tensor of a tree with its place in it; other values go to the config."""
        self.count(depth)
        if isinstance(node, Tensor):
            yield path, check_tensor(self.subject, path, node)
        elif isinstance(node, Mapping | list | tuple):
            pairs = node if isinstance(node, Mapping) else dict(enumerate(node))
            for key, value in pairs.items():
                yield from self.tensors_in(_join(path, str(key)), value, depth + 1, root)
        else:
            self.config[_join(root, path)] = self.plain(node, depth)

    def plain(self, value: object, depth: int) -> object:
        """A plain copy of a value: numbers, strings, lists and dictionaries."""
        self.count(depth)
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, Mapping):
            return {str(key): self.plain(item, depth + 1) for key, item in value.items()}
        if isinstance(value, set | frozenset):
            return sorted((self.plain(item, depth + 1) for item in value), key=str)
        if isinstance(value, Sequence) and not isinstance(value, bytes):
            return [self.plain(item, depth + 1) for item in value]
        if isinstance(value, bytes | complex | torch.dtype | torch.device):
            return str(value).removeprefix("torch.")
        if isinstance(value, Tensor):
            return check_tensor(self.subject, "a tensor among plain values", value).tolist()
        raise FileError(
            self.subject,
            expected="tensors and plain values",
            found=f"an entry of type {type(value).__name__}",
            hint="Save the module's state dict.",
        )

    def holds_tensors(self, value: object, depth: int) -> bool:
        """Whether there is a tensor anywhere in a tree."""
        self.count(depth)
        if isinstance(value, Mapping):
            return any(self.holds_tensors(item, depth + 1) for item in value.values())
        if isinstance(value, list | tuple):
            return any(self.holds_tensors(item, depth + 1) for item in value)
        return isinstance(value, Tensor)

    def count(self, depth: int) -> None:
        """Keep count of entries, so that lists that hold themselves come to an end."""
        self._entries += 1
        if self._entries > LARGEST_TREE or depth > DEEPEST_TREE:
            raise FileError(
                self.subject,
                expected=f"at most {LARGEST_TREE} entries, nested at most {DEEPEST_TREE} deep",
                found="more",
                hint="The file may be made to deceive.",
            )


def _is_layer(value: object) -> bool:
    return (
        isinstance(value, Mapping)
        and bool(value)
        and all(str(key) in LEAVES and isinstance(item, Tensor) for key, item in value.items())
    )


def _names_network(name: str) -> bool:
    """Whether a name is that of a network, or of something else that is not a layer."""
    words = ("state_dict", "model", "net", *MAIN_NAMES, *AVERAGES)
    return any(word in name.lower() for word in words)


def _are_few(flat: Mapping[str, Tensor]) -> bool:
    """Whether tensors beside networks are stray values such as a loss, not a network."""
    return all(tensor.ndim == 0 for tensor in flat.values()) or len(flat) == 1


def _distance(path: str) -> int:
    """How far the name of a group of tensors is from being the main network's."""
    *_, last = path.lower().split(".")
    if any(word in path.lower() for word in AVERAGES):
        return len(MAIN_NAMES) + 1
    return MAIN_NAMES.index(last) if last in MAIN_NAMES else len(MAIN_NAMES)


def _shared_prefix(tensors: Mapping[str, Tensor]) -> str:
    prefix = ""
    while True:
        for wrapper in WRAPPERS:
            longer = prefix + wrapper
            if all(name.startswith(longer) and len(name) > len(longer) for name in tensors):
                prefix = longer
                break
        else:
            return prefix


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
