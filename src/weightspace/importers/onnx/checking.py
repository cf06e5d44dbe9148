"""Comparing a built module with another runtime."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from weightspace.errors import TraceError
from weightspace.importers.onnx.network import OnnxNetwork

if TYPE_CHECKING:
    import onnx

_log = logging.getLogger(__name__)

TOLERANCE = 1e-4
"""How much an output may differ, relative to its largest value."""


def check_outputs(network: OnnxNetwork, model: onnx.ModelProto, subject: str) -> float:
    """Run a network and the model it was built from on the same inputs.

    The model runs in onnxruntime if that is installed, else in onnx's reference evaluator.

    Returns:
        The largest difference, relative to the largest value of the output.

    Raises:
        TraceError: the outputs differ, or nothing can run the model.
    """
    inputs = dict(zip(network.input_names, network.example_inputs, strict=True))
    feeds = {name: tensor.numpy() for name, tensor in inputs.items()
             if tensor.dtype != torch.bfloat16}  # fmt: skip
    expected = _run(model, feeds, list(network.output_names), subject)
    found = network.run(*network.example_inputs)
    worst = 0.0
    for name, want, have in zip(network.output_names, expected, found, strict=True):
        change = _difference(np.asarray(want), have)
        worst = max(worst, change)
        if not change <= TOLERANCE:
            raise TraceError(
                f"{subject}, output {name!r}",
                expected=f"what another runtime computes, within {TOLERANCE:g}",
                found=f"a relative difference of {change:.3g}",
                hint="An operation was translated wrongly; please report the model.",
            )
    return worst


def _run(
    model: onnx.ModelProto, feeds: dict[str, Any], outputs: list[str], subject: str
) -> list[Any]:
    try:
        return _in_runtime(model, feeds, outputs)
    except ImportError:
        pass
    except Exception as error:  # onnxruntime lacks some types and versions
        _log.info("onnxruntime could not run %s: %s", subject, error)
    from onnx.reference import ReferenceEvaluator  # noqa: PLC0415 (an extra)

    try:
        with np.errstate(all="ignore"):
            return list(ReferenceEvaluator(model).run(outputs, feeds))
    except Exception as error:
        raise TraceError(
            subject,
            expected="a model that another runtime can run, to check the import",
            found=f"{type(error).__name__}: {' '.join(str(error).split())[:200]}",
            hint="Import it with check=False, and compare its outputs yourself.",
        ) from error


def _in_runtime(model: onnx.ModelProto, feeds: dict[str, Any], outputs: list[str]) -> list[Any]:
    import onnxruntime  # noqa: PLC0415 (optional)

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = max(1, torch.get_num_threads())
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(outputs, feeds))


def _difference(want: np.ndarray[Any, Any], have: torch.Tensor) -> float:
    other = have.detach().to(torch.float64).numpy()
    one = want.astype(np.float64)
    if one.shape != other.shape:
        return float("inf")
    usable = np.isfinite(one)
    if not np.array_equal(usable, np.isfinite(other)):
        return float("inf")
    if not usable.any():
        return 0.0
    scale = float(np.abs(one[usable]).max()) or 1.0
    return float(np.abs(one[usable] - other[usable]).max()) / scale
