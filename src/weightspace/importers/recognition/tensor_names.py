"""What the names of tensors tell: which layer, which part of it, which convention."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Literal

Part = Literal["weight", "bias", "mean", "var", "count", "other"]

WORDS: dict[str, Part] = {
    **dict.fromkeys(("weight", "weights", "w", "W", "kernel", "kernels", "A"), "weight"),
    **dict.fromkeys(("gamma", "scale"), "weight"),
    **dict.fromkeys(("bias", "biases", "b", "beta", "offset"), "bias"),
    **dict.fromkeys(("running_mean", "moving_mean"), "mean"),
    **dict.fromkeys(("running_var", "moving_variance"), "var"),
    "num_batches_tracked": "count",
}
"""The last words of tensors' names."""
SOURCE_FIRST = {"w", "kernel", "kernels", "A"}
"""Weights so named are stored [inputs, outputs] (``y = x @ w``), others [outputs, inputs]."""
UNTELLING = {
    "downsample", "shortcut", "skip", "residual", "res", "resnet", "resblock", "resblocks",
    "basicblock", "bottleneck", "block", "blocks", "attn", "attention", "mha", "qkv", "wq", "wk",
    "wv", "wo", "transformer", "lstm", "gru", "rnn", "embed", "embedding", "embeddings", "expert",
    "experts", "moe", "gate", "unet", "up", "down", "identity", "branch", "branches", "fn",
}  # fmt: skip
"""Words of networks that are no chains: their tensors may fit together and be added, gated or
shared all the same."""


@dataclass(frozen=True, slots=True)
class TensorName:
    """A tensor's name, taken apart.

    Args:
        name: as it is in the file.
        path: the components that name the layer.
        part: which tensor of the layer it is.
        word: the word that told the part.
    """

    name: str
    path: tuple[str, ...]
    part: Part
    word: str = ""


def parse_name(name: str) -> TensorName:
    """Take a name apart, whatever framework's custom it follows.

    >>> [parse_name(n).path for n in ("seq.0.weight", "dense_1/kernel:0", "w2", "fc1_b")]
    [('seq', '0'), ('dense_1',), ('2',), ('fc1',)]
    >>> parse_name("biases.3")
    TensorName(name='biases.3', path=('3',), part='bias', word='biases')
    """
    parts = [part for part in re.split(r"[./]", re.sub(r":\d+$", "", name)) if part]
    if not parts:
        return TensorName(name, (), "other")
    *path, last = parts
    if last in WORDS:
        return TensorName(name, tuple(path), WORDS[last], last)
    if is_index(last) and path and path[-1] in WORDS:
        return TensorName(name, (*path[:-1], last), WORDS[path[-1]], path[-1])
    numbered = re.fullmatch(r"([A-Za-z]+)_?(\d{1,9})", last)
    if numbered and numbered[1] in WORDS:
        return TensorName(name, (*path, numbered[2]), WORDS[numbered[1]], numbered[1])
    layer, _, word = last.rpartition("_")
    if layer and word in WORDS and not path:
        return TensorName(name, (layer,), WORDS[word], word)
    return TensorName(name, tuple(parts), "other")


def is_index(part: str) -> bool:
    """Whether a component of a name is a number that counts."""
    return part.isdecimal() and len(part) < 10


def natural_key(path: tuple[str, ...]) -> tuple[tuple[tuple[int, str], ...], ...]:
    """A sort key by which ``2`` comes before ``10``, and ``fc`` before ``fc1``."""
    return tuple(
        tuple((int(piece), "") if is_index(piece) else (-1, piece) for piece in _pieces(part))
        for part in path
    )


def _pieces(part: str) -> list[str]:
    return [piece for piece in re.split(r"(\d+)", part) if piece]


def stem_and_number(part: str) -> tuple[str, int | None]:
    """Split the number off the end of a name.

    >>> stem_and_number("conv2d_1"), stem_and_number("fc2"), stem_and_number("head")
    (('conv2d', 1), ('fc', 2), ('head', None))
    """
    match = re.fullmatch(r"(.*?)_?(\d{1,9})", part)
    if match is None or not match[1]:
        return part, None
    return match[1], int(match[2])


def untelling_word(name: str) -> str:
    """The word in a name that shows a structure beyond chains; empty if there is none.

    >>> untelling_word("3.downsample.0.weight"), untelling_word("net.0.weight")
    ('downsample', '')
    """
    parts = [part for part in re.split(r"[./]", name) if part]
    for part, following in itertools.pairwise([*parts, ""]):
        if re.fullmatch(r"layer\d+", part) and is_index(following):
            return f"{part}.{following}"
        for word in re.split(r"[_\d:]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", part)):
            if word.lower() in UNTELLING:
                return word
    return ""
