"""Products of weights with states that were seen before, found by their content."""

from __future__ import annotations

import hashlib
import weakref
from collections import OrderedDict

import torch
from torch import Tensor

from weightspace.nn.lifted_products import lifted_products
from weightspace.nn.lifts import Lifting
from weightspace.nn.raw_blocks import RawBlock

Key = bytes
Pair = tuple[Tensor, Tensor]


class ProductCache:
    """Remembers what blocks of weights gave with the states they were multiplied with.

    A layer's products are a function of a block's weights, the scales of its lifts and the
    states at its ends. They are kept under a hash of all of these (blake2b), so that of a
    fine-tuned copy of a network that was read before, only what changed, and what that changed
    within as many hops as there are layers, is computed again. The result is exactly the same,
    bit by bit. Used where no gradient is wanted; with one, everything is computed. Not for
    several threads at once.

    Args:
        most_bytes: of results kept; the ones not used for longest are dropped.

    >>> cache = ProductCache(most_bytes=1 << 20)
    >>> block = RawBlock(torch.ones(1, 5, 5, 1), torch.zeros(1), torch.ones(1))
    >>> states = torch.ones(1, 5, 2)
    >>> for _ in range(3):
    ...     _ = cache(block, Lifting.of("weight"), torch.ones(2, 1, 2), states, states)
    >>> cache.hits, cache.misses
    (2, 1)
    """

    def __init__(self, *, most_bytes: int = 1 << 30) -> None:
        self.most_bytes = most_bytes
        self.hits, self.misses, self.held_bytes = 0, 0, 0
        self._results: OrderedDict[Key, Pair] = OrderedDict()
        self._digests: weakref.WeakKeyDictionary[RawBlock, bytes] = weakref.WeakKeyDictionary()

    def __call__(
        self, block: RawBlock, lifting: Lifting, scales: Tensor, sources: Tensor, targets: Tensor
    ) -> Pair:
        """See :func:`~weightspace.nn.lifted_products.lifted_products`."""
        tensors = (scales, sources, targets, block.values)
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            return lifted_products(block, lifting, scales, sources, targets)
        key = self._key(block, lifting, tensors[:3])
        if key in self._results:
            self.hits += 1
            self._results.move_to_end(key)
            return self._results[key]
        self.misses += 1
        result = lifted_products(block, lifting, scales, sources, targets)
        self._keep(key, result)
        return result

    def clear(self) -> None:
        """Forget everything but the counts."""
        self._results.clear()
        self.held_bytes = 0

    def _key(self, block: RawBlock, lifting: Lifting, tensors: tuple[Tensor, ...]) -> Key:
        digest = hashlib.blake2b(digest_size=32)
        digest.update(" ".join(lifting.names).encode())
        digest.update(self._block_digest(block))
        for tensor in tensors:
            _feed(digest, tensor)
        return digest.digest()

    def _block_digest(self, block: RawBlock) -> bytes:
        """A block's hash; taken once for all layers of a pass, which share the block."""
        if block not in self._digests:
            digest = hashlib.blake2b(digest_size=32)
            for tensor in (block.values, block.mean, block.std):
                _feed(digest, tensor)
            self._digests[block] = digest.digest()
        return self._digests[block]

    def _keep(self, key: Key, result: Pair) -> None:
        self._results[key] = result
        self.held_bytes += _bytes(result)
        while self.held_bytes > self.most_bytes and self._results:
            _, dropped = self._results.popitem(last=False)
            self.held_bytes -= _bytes(dropped)


def _feed(digest: hashlib.blake2b, tensor: Tensor) -> None:
    """Add a tensor's type, shape and values; rows at a time where they lie apart."""
    own = tensor.detach().cpu()
    digest.update(f"{own.dtype} {tuple(own.shape)}".encode())
    if own.dtype == torch.bfloat16:
        own = own.view(torch.int16)
    parts = [own] if own.is_contiguous() else list(own.flatten(0, 1).unbind())
    for part in parts:
        digest.update(part.contiguous().numpy().data)


def _bytes(result: Pair) -> int:
    return sum(t.numel() * t.element_size() for t in result)
