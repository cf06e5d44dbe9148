"""Exporting a module to a graph of ATen operations."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from weightspace.errors import TraceError
from weightspace.graph.caches import no_memory
from weightspace.importers.data_sizes import deciding_sizes

_log = logging.getLogger(__name__)

Inputs = Tensor | tuple[Any, ...] | Mapping[str, Any]

# Operations with rules of their own, kept whole instead of being decomposed: their parts
# would hide what they do to dimensions.
_KEPT = frozenset(
    {
        "linear", "matmul", "scaled_dot_product_attention", "lstm", "gru", "rnn_tanh", "rnn_relu",
        "silu", "mish", "hardswish", "hardsigmoid", "selu", "celu", "elu", "softplus", "softsign",
        "logsigmoid", "gelu", "prelu", "rrelu", "glu", "rms_norm", "log_softmax", "softmax",
        "logsumexp", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
        "upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d",
        "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "_upsample_nearest_exact1d",
        "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "channel_shuffle",
        "pixel_shuffle", "pixel_unshuffle", "roll", "repeat_interleave", "one_hot", "im2col",
        "col2im", "grid_sampler", "grid_sampler_2d", "_weight_norm_interface", "unbind", "chunk",
        "split", "split_with_sizes", "group_norm", "instance_norm", "native_group_norm",
        "adaptive_avg_pool1d", "adaptive_avg_pool2d", "_adaptive_avg_pool2d",
        "adaptive_avg_pool3d", "_adaptive_avg_pool3d", "adaptive_max_pool2d", "avg_pool1d",
        "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d", "max_pool3d", "relu6", "hardtanh",
        "leaky_relu", "logit", "cdist", "norm", "linalg_vector_norm", "bilinear", "tile", "stack",
        "flip", "std", "var", "max_unpool2d", "max_unpool3d"
    }
)  # fmt: skip


@dataclass(frozen=True)
class Exported:
    """An exported module, with what the export itself forgets.

    Args:
        program: the exported graph.
        state: the module's state dict.
        twins: tensors of the state dict that are another one under a second name.
    """

    program: ExportedProgram
    state: Mapping[str, Tensor]
    twins: Mapping[str, str]

    def canonical(self, name: str) -> str:
        """The first name of a tensor that has several."""
        return self.twins.get(name, name)

    def constant(self, name: str | None) -> Tensor | None:
        """The values of a constant or of a buffer outside the state dict."""
        found = self.program.constants.get(name) if name else None
        return found if isinstance(found, Tensor) else None


def export(module: nn.Module, example_inputs: Inputs) -> Exported:
    """Export a module in evaluation mode; the module is left as it was.

    Raises:
        TraceError: ``torch.export`` cannot export it.
    """
    args, kwargs = arguments_of(example_inputs)
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad(), warnings.catch_warnings(), no_memory(module), _quietly():
            warnings.simplefilter("ignore")
            program = deciding_sizes(lambda: _program(module, args, kwargs))
    except Exception as error:
        raise _refused(module, args, kwargs, error) from error
    finally:
        for part, training in modes:
            part.training = training
    state = {name: t for name, t in module.state_dict().items() if isinstance(t, Tensor)}
    return Exported(program, state, _twins(state))


def _refused(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception
) -> TraceError:
    """What to say of a module that cannot be exported: perhaps it cannot be run, either."""
    subject = f"module {type(module).__name__}"
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module(*args, **kwargs)
    except Exception as failure:  # whatever its code raises
        shapes = [str(tuple(x.shape)) for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
        return TraceError(
            subject,
            expected=f"a network that runs on its inputs (tensors of {', '.join(shapes)})",
            found=f"{type(failure).__name__}: {_first_line(failure)}",
            hint="Give inputs of the shapes and types that it takes.",
        )
    return TraceError(
        subject,
        expected="a network that torch.export can export with these inputs",
        found=f"{type(error).__name__}: {_first_line(error)}",
        hint="Data-dependent control flow and custom operations cannot be exported.",
    )


def _program(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExportedProgram:
    program = torch.export.export(module, args, kwargs, strict=False)
    return cast(ExportedProgram, program.run_decompositions(_decompositions()))


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Log what torch prints and warns about a network that it refuses: the error says it."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):
            loggers = [logging.getLogger(name) for name in _LOUD]
            for logger in loggers:
                logger.addFilter(_kept_back)
            try:
                yield
            finally:
                for logger in loggers:
                    logger.removeFilter(_kept_back)
    finally:
        if printed.getvalue():
            _log.debug("torch.export: %s", printed.getvalue().strip())


_LOUD = ("torch.fx.experimental.symbolic_shapes", "torch._subclasses.fake_tensor")
"""What torch logs, tracebacks among it, of shapes that it then raises an error about."""


def _kept_back(record: logging.LogRecord) -> bool:
    return record.levelno > logging.WARNING and record.name != _LOUD[1]


def arguments_of(inputs: Inputs) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Example inputs as a module is called with them: by position and by name.

    >>> arguments_of({"x": 1})
    ((), {'x': 1})
    """
    if isinstance(inputs, Tensor):
        return (inputs,), {}
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return tuple(inputs), {}


def _decompositions() -> dict[Any, Any]:
    table: Any = torch.export.default_decompositions()
    for operation in list(table.keys()):
        if operation._schema.name.removeprefix("aten::") in _KEPT:
            table.pop(operation)
    return cast(dict[Any, Any], table)


def _twins(state: Mapping[str, Tensor]) -> dict[str, str]:
    """Second names of tensors that share all their memory."""
    first: dict[tuple[Any, ...], str] = {}
    twins: dict[str, str] = {}
    for name, tensor in state.items():
        if tensor.numel() == 0:
            continue
        key = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        if first.setdefault(key, name) != name:
            twins[name] = first[key]
    return twins


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0]
