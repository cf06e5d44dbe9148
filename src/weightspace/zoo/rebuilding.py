"""Running the networks of a zoo again: from a row's columns to a module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from weightspace.errors import DataError
from weightspace.zoo.char_transformer import CharTransformer
from weightspace.zoo.image_mlp import ImageMlp
from weightspace.zoo.small_cnn import SmallCnn
from weightspace.zoo.small_vit import SmallVit
from weightspace.zoo.store import Zoo
from weightspace.zoo.wild_cnn import WildCnn

ARCHITECTURES: Mapping[str, Callable[[Mapping[str, Any]], nn.Module]] = {
    "small-cnn": SmallCnn.from_row,
    "wild-cnn": WildCnn.from_row,
    "image-mlp": ImageMlp.from_row,
    "small-vit": SmallVit.from_row,
    "char-transformer": CharTransformer.from_row,
}
"""What the column ``architecture`` may name."""


def build_network(row: Mapping[str, Any]) -> nn.Module:
    """Build a network as a row of a zoo describes it, with weights of no meaning.

    Args:
        row: its columns.

    Raises:
        DataError: the row names no architecture that is known.

    >>> build_network({"architecture": "image-mlp", "sizes": [4, 2], "activation": "relu"}).layers
    ModuleList(
      (0): Linear(in_features=4, out_features=2, bias=True)
    )
    """
    name = str(row.get("architecture"))
    if name not in ARCHITECTURES:
        raise DataError(
            "column 'architecture'",
            expected=f"one of {', '.join(ARCHITECTURES)}",
            found=repr(name),
        )
    return ARCHITECTURES[name](row)


def load_network(zoo: Zoo, index: int) -> nn.Module:
    """Build a network of a zoo with its weights, ready to run.

    Args:
        zoo: made by a recipe of classifiers or language models.
        index: the network's number in the zoo.

    Raises:
        DataError: the zoo's rows name no architecture, or there is no such network.
    """
    row = zoo.metadata.slice(index, 1).to_pylist() if 0 <= index < len(zoo) else []
    if not row:
        raise DataError("network", expected=f"a number below {len(zoo)}", found=str(index))
    network = build_network(row[0])
    network.load_state_dict({name: t[0] for name, t in zoo.states([index]).items()})
    return network.eval()
