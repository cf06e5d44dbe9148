"""Numbers and words on their way into a page that a script reads."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
from jaxtyping import Float

from weightspace.report.page import clean

Array = np.ndarray[Any, np.dtype[Any]]
Encoded = dict[str, Any]

# So that no text ends the element that holds it, or begins another.
_UNSAFE = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
_STEPS = 32767


def encode(values: Float[Array, "*shape"], *, exact: bool) -> Encoded:
    """Numbers as base64, row by row.

    Args:
        values: any shape.
        exact: whether as float32 to the bit; else in 65,535 steps of the largest magnitude,
            which is half as long. What is not finite is always written to the bit.

    >>> encode(np.array([1.0, -2.0]), exact=True)
    {'n': 2, 'f4': 'AACAPwAAAMA='}
    """
    flat = np.ascontiguousarray(values, dtype=np.float32).ravel()
    largest = float(np.abs(flat).max(initial=0.0))
    if exact or not np.isfinite(largest):
        return {"n": flat.size, "f4": _text(flat.astype("<f4"))}
    step = largest / _STEPS or 1.0
    return {"n": flat.size, "step": step, "i2": _text(np.rint(flat / step).astype("<i2"))}


def script_json(data: Any) -> str:
    r"""JSON that can stand in a script element, whatever its strings are.

    >>> script_json({"name": "</script><script>"})
    '{"name":"\\u003c/script\\u003e\\u003cscript\\u003e"}'
    """
    text = json.dumps(_finite(data), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.translate(_UNSAFE)


def _finite(data: Any) -> Any:
    """Clean text, and words for numbers that JSON does not have."""
    if isinstance(data, dict):
        return {clean(str(key)): _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    if isinstance(data, str):
        return clean(data)
    if isinstance(data, float) and not np.isfinite(data):
        return str(data)
    return data


def _text(values: Array) -> str:
    return base64.b64encode(values.tobytes()).decode("ascii")
