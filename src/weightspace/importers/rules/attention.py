"""Scaled dot-product attention, kept whole."""

from __future__ import annotations

from weightspace.importers.atoms import Dim, regroup, size_of
from weightspace.importers.call import Call, Result, pin, rule, unify
from weightspace.importers.value import Draw, Value


@rule("scaled_dot_product_attention")
def attention(call: Call) -> Result:
    """``softmax(q k^T) v``: query and key features are tied, heads and batch too.

    Grouped queries: the query's heads are (key heads, repeats).
    """
    q, k, v = call["query"], call["key"], call["value"]
    mask = call["attn_mask"]
    lead = q.rank - 2
    heads: list[Dim] = []
    for i in range(lead):
        heads.append(_head(q.dims[i], k.dims[i], v.dims[i]))
    unify(q.dims[-1], k.dims[-1])
    unify(k.dims[-2], v.dims[-2])
    if call["is_causal"]:
        pin(q.dims[-2], "positions in order")
        pin(k.dims[-2], "positions in order")
    scores = [*heads, q.dims[-2], k.dims[-2]]
    if isinstance(mask, Value):
        for back in range(1, mask.rank + 1):
            dim = mask.dims[-back]
            if back <= len(scores) and size_of(dim) == size_of(scores[-back]):
                unify(scores[-back], dim)
    # The scores have no features: a head's are summed, so heads cannot be nested in them.
    call.spaces.append(tuple(scores))
    call.spaces.append((*scores, q.dims[-1]))
    call.spaces.append((*scores, v.dims[-1]))
    value = call.make(
        [*heads, q.dims[-2], v.dims[-1]],
        [q, k, v, *([mask] if isinstance(mask, Value) else [])],
        draw=Draw("attention", (q, k, v, *([mask] if isinstance(mask, Value) else []))),
    )
    return value if len(call.shapes) == 1 else (value, *[None] * (len(call.shapes) - 1))


def _head(query: Dim, key: Dim, value: Dim) -> Dim:
    unify(key, value)
    if size_of(query) == size_of(key):
        unify(query, key)
        return query
    groups = size_of(key)
    parts = regroup(query, [groups, size_of(query) // groups])
    if parts is None:
        for dim in (query, key, value):
            pin(dim, "grouped heads")
        return query
    unify(parts[0], key)
    return query
