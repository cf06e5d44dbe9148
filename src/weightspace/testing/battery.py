"""The battery of tests that every metanetwork must pass."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from weightspace.errors import WeightspaceError
from weightspace.graph import (
    GroupElement,
    MixedGraph,
    NeuralGraph,
    SymmetryGroup,
)
from weightspace.models import Editor, Metanetwork, Predictor, Requirements, Trunk
from weightspace.testing.networks import sample_batches

M = TypeVar("M", bound=Metanetwork)


class TrunkBattery:
    """Tests of a trunk's mathematics; subclass it in a test file of pytest.

    Every batch is read in double precision and evaluation mode, where not said otherwise.

    Attributes:
        kinds: the symmetries that the model respects, see
            :meth:`weightspace.graph.SymmetryGroup.sample`. Empty for a model that respects none.
        mixes: whether it reads networks of several specs in one batch.
        edits: whether it can edit.
        couples: whether networks of one batch depend on each other in training (batch
            normalisation); in evaluation they never may.
        unread: parts of names of parameters that predictions cannot depend on, such as what
            only changes hidden nodes in the last layer.
        tolerance: the largest relative change that counts as none.

    >>> from weightspace.models import NGGNN
    >>> class TestMine(TrunkBattery):
    ...     def make(self, requirements: Requirements) -> Trunk:
    ...         return NGGNN(requirements, width=4, layers=2, frequencies=4, dropout=0.0)
    >>> TestMine().test_prediction_is_invariant()
    """

    kinds: tuple[str, ...] = ("permutation",)
    mixes = True
    edits = True
    couples = False
    unread: tuple[str, ...] = ()
    tolerance = 1e-8

    # -- what a subclass says --------------------------------------------------------------

    def make(self, requirements: Requirements) -> Trunk:
        """A small trunk of the model, without dropout."""
        raise NotImplementedError

    def batches(self) -> list[MixedGraph]:
        """Batches of one spec each."""
        return sample_batches(several=False)

    def mixed(self) -> list[MixedGraph]:
        """Batches of several specs."""
        return sample_batches(several=True) if self.mixes else []

    # -- symmetry --------------------------------------------------------------------------

    def test_prediction_is_invariant(self) -> None:
        """Predictions do not change under random elements of the networks' groups."""
        for batch in [*self.batches(), *self.mixed()]:
            model = self._predictor(batch)
            for seed in range(3):
                if self.kinds:
                    _close(model(batch), model(_moved(batch, self.kinds, seed)), self.tolerance)

    def test_edit_is_equivariant(self) -> None:
        """Editing a moved network gives the moved edit."""
        if not (self.edits and self.kinds):
            return
        for batch in [*self.batches(), *self.mixed()]:
            model = self._editor(batch)
            for seed in range(3):
                one = _moved(_mixed(model(batch)), self.kinds, seed)
                two = _mixed(model(_moved(batch, self.kinds, seed)))
                for a, b in zip(one.parts, two.parts, strict=True):
                    _close_states(a.stacked_state(), b.stacked_state(), self.tolerance)

    def test_it_tells_networks_apart(self) -> None:
        """Another network gets another prediction, and an edit changes every parameter."""
        for batch in self.batches():
            prediction = self._predictor(batch)(batch)
            assert (prediction[0] - prediction[1]).abs().max() > 1e-9
            if self.edits:
                edited = _mixed(self._editor(batch)(batch)).parts[0].stacked_state()
                for name, before in batch.parts[0].stacked_state().items():
                    assert (edited[name] - before).abs().max() > 1e-12, name

    # -- batches ---------------------------------------------------------------------------

    def test_batch_mates_do_not_matter(self) -> None:
        """A network alone, and in any batch, is read the same."""
        for batch in [*self.batches(), *self.mixed()]:
            models: list[Metanetwork] = [self._predictor(batch)]
            models += [self._editor(batch)] if self.edits else []
            for training in [False] if self.couples else [False, True]:
                for model in models:
                    self._compare_alone(model.train(training), batch)

    def _compare_alone(self, model: Metanetwork, batch: MixedGraph) -> None:
        together = model(batch)
        for i, network in enumerate(batch.networks()):
            alone = model(network)
            if isinstance(alone, Tensor):
                _close(together[i : i + 1], alone, self.tolerance)
            else:
                other = together.networks()[i].stacked_state()
                _close_states(alone.stacked_state(), other, self.tolerance)

    # -- gradients -------------------------------------------------------------------------

    def test_gradient_in_the_weights(self) -> None:
        """The derivative along a random direction is that of finite differences."""
        for batch in self.batches():
            model = self._predictor(batch)
            (graph,) = batch.parts
            stacked = {n: t.clone().requires_grad_() for n, t in graph.stacked_state().items()}
            ways = {name: torch.randn_like(tensor) for name, tensor in stacked.items()}

            def value(step: float, graph: NeuralGraph = graph, model: Predictor = model) -> Tensor:
                moved = {n: t + step * ways[n] for n, t in stacked.items()}  # noqa: B023
                outputs: Tensor = model(NeuralGraph.from_stacked(graph.spec, moved))
                return outputs.square().sum()

            grads = torch.autograd.grad(value(0.0), list(stacked.values()), allow_unused=True)
            pairs = zip(grads, ways.values(), strict=True)
            own = sum((grad * way).sum() for grad, way in pairs if grad is not None)
            with torch.no_grad():
                numeric = (value(1e-6) - value(-1e-6)) / 2e-6
            _close(torch.as_tensor(own), numeric, 1e-4)

    def test_every_parameter_learns(self) -> None:
        """Every parameter of predictor and editor gets a gradient on some batch."""
        batches = [*self.batches(), *self.mixed()]
        for make in (self._predictor, self._editor) if self.edits else (self._predictor,):
            reached: dict[str, bool] = {}
            for batch in batches:
                model = make(batch)
                torch.autograd.backward(_total(model(batch)))
                for name, parameter in model.named_parameters():
                    moves = parameter.grad is not None and bool(parameter.grad.abs().max() > 0)
                    free = make == self._predictor and any(part in name for part in self.unread)
                    reached[name] = reached.get(name, False) or moves or free
            assert all(reached.values()), [name for name, moves in reached.items() if not moves]

    # -- saving, types, compilers ----------------------------------------------------------

    def test_it_is_made_again_from_its_options(self) -> None:
        """Options, requirements and state dict are all that a model is."""
        for batch in self.batches():
            model = self._predictor(batch)
            needs = Requirements.from_dict(model.trunk.requirements.to_dict())
            again = Predictor(type(model.trunk)(needs, **model.trunk.options), outputs=3)
            again.double().load_state_dict(model.state_dict())
            _close(model(batch), again.eval()(batch), 0.0)

    def test_single_precision_is_near(self) -> None:
        """Single precision gives the numbers of double precision."""
        for batch in [*self.batches(), *self.mixed()]:
            model = self._predictor(batch)
            single = copy.deepcopy(model).float()
            small = batch.map_parts(lambda part: part.to(torch.float32))
            _close(model(batch), single(small).double(), 1e-3)

    def test_it_compiles(self) -> None:
        """``torch.compile`` gives the same numbers; graph breaks are allowed."""
        batch = self.batches()[0]
        model = self._predictor(batch)
        compiled = torch.compile(model, backend="eager")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the compiler's own, about tensors it looks at
            result = compiled(batch)
        _close(model(batch), result, 1e-9)

    # -- refusals --------------------------------------------------------------------------

    def test_foreign_networks_are_refused(self) -> None:
        """Wrong types, NaN and other inputs are errors that say so."""
        batch = self.batches()[0]
        model = self._predictor(batch)
        bad = batch.map_parts(lambda part: part.map(lambda t: t * float("nan")))
        for wrong in (batch.map_parts(lambda part: part.to(torch.float32)), bad):
            try:
                model(wrong)
            except WeightspaceError:
                continue
            raise AssertionError("networks of another type, or with NaN, were read")

    # -- helpers ---------------------------------------------------------------------------

    def _predictor(self, batch: MixedGraph) -> Predictor:
        return self._fitted(lambda trunk: Predictor(trunk, outputs=3), batch)

    def _editor(self, batch: MixedGraph) -> Editor:
        return self._fitted(Editor, batch)

    def _fitted(self, make: Callable[[Trunk], M], batch: MixedGraph) -> M:
        torch.manual_seed(0)
        model = make(self.make(Requirements.of(batch.specs))).double()
        model.fit_normalisation(batch)
        return model.eval()


def _mixed(batch: NeuralGraph | MixedGraph) -> MixedGraph:
    return MixedGraph.of(batch)


def _moved(batch: MixedGraph, kinds: tuple[str, ...], seed: int) -> MixedGraph:
    """Every part moved by a random element of its group."""
    generator = torch.Generator().manual_seed(seed)

    def move(part: NeuralGraph) -> NeuralGraph:
        element: GroupElement = SymmetryGroup(part.spec).sample(generator, kinds=kinds)
        return element.act_graph(part)

    return batch.map_parts(move)


def _total(result: Tensor | MixedGraph | NeuralGraph) -> Tensor:
    if isinstance(result, Tensor):
        return result.square().sum()
    states = [part.stacked_state().values() for part in _mixed(result).parts]
    return torch.stack([t.square().sum() for values in states for t in values]).sum()


def _close(one: Tensor, two: Tensor, tolerance: float) -> None:
    scale = max(float(one.detach().abs().max()), 1e-12)
    change = float((one - two).detach().abs().max()) / scale
    assert change <= tolerance, f"a relative change of {change:.3g}"


def _close_states(one: dict[str, Tensor], two: dict[str, Tensor], tolerance: float) -> None:
    for name, tensor in one.items():
        _close(tensor, two[name], tolerance)
