"""ProbeGen: networks judged by what they answer, their weights unread."""

from __future__ import annotations

import itertools
import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from weightspace.errors import ModelError
from weightspace.graph import GraphSpec
from weightspace.models.option_limits import checked_options
from weightspace.models.predict_only import PredictOnly
from weightspace.models.requirements import Requirements
from weightspace.models.runners import ChainsRunner, Runner
from weightspace.nn.hidden_layers import hidden_layers
from weightspace.nn.networks import Networks


class ProbeOnly(PredictOnly):
    """Learned inputs to the networks, their outputs concatenated, an MLP.

    Kahana et al. 2025, "Deep linear probe generators for weight space learning" (ProbeGen): the
    inputs are made by a deep linear generator from learned latent codes,
    ``probe_i = W_k ... W_2 W_1 z_i``; no nonlinearity, whose absence is the paper's
    regularisation. Invariant to every change of weights that leaves the function unchanged.

    Args:
        requirements: the networks it reads.
        probes: learned inputs.
        latent: values of a code.
        generator_width: neurons of the generator's inner layers.
        generator_layers: linear maps of the generator.
        width: neurons of each hidden layer of the MLP.
        layers: hidden layers of the MLP.
        dropout: rate after each hidden layer.
        values: of one probe, for networks that a runner runs; 0 runs chains of linear layers
            from their spec.
        answers: of one network on one probe, for the same.
        runner: runs the networks, such as :class:`~weightspace.models.ModuleRunner`; sets
            ``values`` and ``answers``. Saved files do not hold it: set ``trunk.runner`` after
            loading.

    >>> from weightspace.graph import chain_spec
    >>> from weightspace.models import Requirements
    >>> spec = chain_spec([2, 4, 1], activations="tanh")
    >>> ProbeOnly(Requirements.of([spec]), probes=64).inputs().shape
    torch.Size([64, 2])
    """

    def __init__(
        self,
        requirements: Requirements,
        *,
        probes: int = 128,
        latent: int = 32,
        generator_width: int = 64,
        generator_layers: int = 3,
        width: int = 256,
        layers: int = 3,
        dropout: float = 0.2,
        values: int = 0,
        answers: int = 0,
        runner: Runner | None = None,
    ) -> None:
        if runner is not None:
            values, answers = runner.values, runner.answers
        options = {
            "probes": probes,
            "latent": latent,
            "generator_width": generator_width,
            "generator_layers": generator_layers,
            "width": width,
            "layers": layers,
            "dropout": dropout,
            "values": values,
            "answers": answers,
        }
        super().__init__(
            requirements,
            name="probe-only",
            width=width,
            options=checked_options(options, probes=1),
        )
        if not (answers or requirements.outputs):
            raise ModelError(
                "probe-only",
                expected="output neurons, so that the networks can be run",
                found="none",
                hint="Give it a runner of the networks' modules.",
            )
        if runner is None and not values:
            runner = ChainsRunner(requirements.inputs, requirements.outputs)
        self.runner = runner
        sizes = [latent, *[generator_width] * (generator_layers - 1)]
        self.codes = nn.Parameter(torch.randn(probes, latent))
        self.generator = nn.Sequential(
            *(
                _kept_scale(nn.Linear(a, b))
                for a, b in itertools.pairwise([*sizes, values or requirements.inputs])
            )
        )
        # probes begin with the deviation of uniform values in (-1, 1)
        with torch.no_grad():
            self.generator[-1].weight.div_(math.sqrt(3))  # type: ignore[operator]
        total = probes * (answers or requirements.outputs)
        self.hidden = hidden_layers(total, width, layers, dropout=dropout)

    def check(self, spec: GraphSpec) -> None:
        """Check that networks of a spec can be run.

        Raises:
            ModelError: naming the node set or block that stands in the way.
        """
        if self.runner is not None:
            self.runner.check(spec)
        if not self._options["values"]:
            super().check(spec)

    def inputs(self) -> Float[Tensor, "probes values"]:
        """The probes that networks are run on."""
        made: Tensor = self.generator(self.codes)
        return made

    def forward(self, networks: Networks) -> Float[Tensor, "networks width"]:
        """Run the networks and read their answers.

        Raises:
            ModelError: the model needs a runner and has none.
        """
        if self.runner is None:
            raise ModelError(
                "probe-only",
                expected="a runner of the networks' modules",
                found="none",
                hint="Set trunk.runner = ModuleRunner({spec: module}, shape) after loading.",
            )
        probes = self.inputs()
        found = [self.runner(part, probes).flatten(1) for part in networks.own.parts]
        hidden: Tensor = self.hidden(torch.cat(found))
        return hidden


def _kept_scale(layer: nn.Linear) -> nn.Linear:
    """Begin a linear map so that it keeps the scale of normal values."""
    nn.init.normal_(layer.weight, std=layer.in_features**-0.5)
    nn.init.zeros_(layer.bias)
    return layer
