"""Bare checkpoints as neural graphs."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from weightspace.errors import StateError
from weightspace.graph.activations import NONE, Activation
from weightspace.graph.neural_graph import NeuralGraph
from weightspace.importers.chain_graph import Activations, sequences_spec
from weightspace.importers.chains import named_activations, require_all_placed
from weightspace.importers.exporting import Inputs
from weightspace.importers.files import Checkpoint, read_states
from weightspace.importers.recognition.keras_order import keras_order
from weightspace.importers.recognition.recogniser import recognise


def from_checkpoint(
    source: str | os.PathLike[str] | Checkpoint,
    *,
    activations: Activations | None = None,
    output: Activation = NONE,
    module: nn.Module | None = None,
    example_inputs: Inputs | None = None,
) -> NeuralGraph:
    """Read a checkpoint as a neural graph.

    Without a module, the structure is recognised from names and shapes: sequences of linear
    layers, convolutions and channel norms, one or several. What a bare checkpoint cannot tell
    (residual connections, concatenations, heads) is not guessed: it needs the module.

    Args:
        source: a checkpoint file, or one that was read.
        activations: after each hidden layer; one for all, or one each. What the file says if
            not given, mostly ``unknown``; they matter for running the network alone.
        output: what is applied to the outputs.
        module: the network that the checkpoint belongs to; it is copied.
        example_inputs: with a module, inputs for tracing it.

    Raises:
        FileError: the file cannot be read.
        StateError: a tensor's place in the network is not sure, or the module is another.
    """
    checkpoint = source if isinstance(source, Checkpoint) else read_states(source)
    if module is not None:
        return _through_module(checkpoint, module, example_inputs)
    return from_state(
        checkpoint.tensors,
        activations=activations,
        output=output,
        subject=str(checkpoint.path),
        order=keras_order(checkpoint),
    )


def from_state(
    tensors: Mapping[str, Tensor],
    *,
    activations: Activations | None = None,
    output: Activation = NONE,
    subject: str = "state",
    order: Sequence[str] | None = None,
) -> NeuralGraph:
    """Read a state dict as a neural graph by the names and shapes of its tensors.

    Args:
        tensors: the state.
        activations: as in :func:`from_checkpoint`.
        output: what is applied to the outputs.
        subject: how errors call the state.
        order: the layers' names in the order of computation, if that is known.

    Raises:
        StateError: a tensor's place in the network is not sure.

    >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(36, 2))
    >>> graph = from_state(net.state_dict(), activations="relu")
    >>> {name: tuple(edges.shape) for name, edges in graph.edges.items()}
    {'0.weight': (1, 1, 4, 1, 9), '3.weight': (1, 1, 2, 4, 9)}
    """
    recognition = recognise(tensors, order=order)
    require_all_placed(recognition, subject)
    if not recognition.sequences:
        raise StateError(subject, expected="layers", found="none")
    if activations is None:
        named = {named_activations(s, recognition.left_out) for s in recognition.sequences}
        activations = named.pop() if len(named) == 1 else "unknown"
    spec = sequences_spec(
        recognition.sequences,
        tensors,
        activations=activations,
        output=output,
        left_out=recognition.left_out,
    )
    return NeuralGraph.from_states(spec, [tensors])


def _through_module(
    checkpoint: Checkpoint, module: nn.Module, example_inputs: Inputs | None
) -> NeuralGraph:
    """Load a checkpoint into a copy of its module, and trace that."""
    from weightspace.importers.from_module import from_module  # noqa: PLC0415 (slow to import)

    if example_inputs is None:
        raise StateError(
            checkpoint.path,
            expected="example_inputs to trace the module with",
            found="none",
            hint="Give a tensor of the shape that the network takes.",
        )
    filled = copy.deepcopy(module)
    try:
        filled.load_state_dict(checkpoint.tensors, strict=True)
    except RuntimeError as error:
        raise StateError(
            checkpoint.path,
            expected=f"the tensors of {type(module).__name__}",
            found=" ".join(str(error).split()),
        ) from error
    return from_module(filled, example_inputs)
