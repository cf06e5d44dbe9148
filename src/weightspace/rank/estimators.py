"""Estimators in the way of scikit-learn, on networks in the form in which people have them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from weightspace.errors import DataError
from weightspace.rank.examples import Examples
from weightspace.rank.folds import group_numbers
from weightspace.rank.inputs import network_features
from weightspace.rank.ranking import Ranking, Said, fit_ranking

Array = npt.NDArray[np.float64]


class NetworkFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn networks into rows of features, for pipelines with any estimator behind.

    Args:
        activation: of all hidden layers, where files do not tell.

    >>> from torch import nn
    >>> NetworkFeatures().fit_transform([nn.Linear(2, 3), nn.Linear(2, 3)]).shape[0]
    2
    """

    def __init__(self, *, activation: str | None = None) -> None:
        self.activation = activation

    def fit(self, X: Any, y: Any = None) -> Self:
        """Nothing is learned."""
        return self

    def transform(self, X: Any) -> Array:
        """See :func:`weightspace.rank.inputs.network_features`."""
        return network_features(X, activation=self.activation)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.two_d_array = False
        return tags


class _OnNetworks(BaseEstimator):  # type: ignore[misc]
    """What both estimators share: networks become features once, features are checked."""

    activation: str | None

    def _features(self, X: Any, *, reset: bool) -> Array:
        features = X if _is_table(X) else network_features(X, activation=self.activation)
        least = 2 if reset else 1
        checked = validate_data(
            self, features, reset=reset, dtype=np.float64, ensure_min_samples=least
        )
        return np.asarray(checked, dtype=np.float64)


class NetworkRegressor(RegressorMixin, _OnNetworks):  # type: ignore[misc]
    """Predict a number of networks from their weights, with calibrated intervals.

    ``X`` is a zoo or a list of paths, hub addresses, modules, state dicts or graphs; an array of
    numbers is taken as features. See :func:`weightspace.rank.fit_ranking`.

    Args:
        model: ``auto``, ``ridge`` or ``trees``.
        coverage: of intervals.
        activation: of all hidden layers, where files do not tell.
        random_state: of folds and trees.

    >>> from torch import nn
    >>> networks = [nn.Linear(3, 3) for _ in range(12)]
    >>> biases = [network.bias.mean().item() for network in networks]
    >>> NetworkRegressor(model="ridge").fit(networks, biases).predict(networks[:2]).shape
    (2,)
    """

    ranking_: Ranking

    def __init__(
        self,
        *,
        model: str = "auto",
        coverage: float = 0.9,
        activation: str | None = None,
        random_state: int = 0,
    ) -> None:
        self.model = model
        self.coverage = coverage
        self.activation = activation
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Choose and fit a model.

        Args:
            X: networks.
            y: the number of each.
            groups: the source of each, such as the run that checkpoints are of; networks of one
                source are never on both sides of a division.

        Raises:
            DataError: there are too few sources, or not a number for each network.
        """
        features = self._features(X, reset=True)
        values = _targets(y, len(features))
        if groups is not None and len(groups) != len(features):
            raise DataError("groups", expected=f"{len(features)}", found=str(len(groups)))
        numbers = group_numbers([None] * len(features) if groups is None else list(groups))
        self.ranking_ = fit_ranking(
            Examples(features, values, numbers),
            model=self.model,
            coverage=self.coverage,
            seed=int(self.random_state),
        )
        return self

    def predict(self, X: Any) -> Array:
        """The number of each network."""
        return self.say(X).values

    def predict_interval(self, X: Any, *, coverage: float | None = None) -> tuple[Array, Array]:
        """The lower and upper ends of each network's interval; infinite with few sources."""
        said = self.say(X, coverage=coverage)
        return said.low, said.high

    def say(self, X: Any, *, coverage: float | None = None) -> Said:
        """Numbers, intervals, and which networks are unlike anything seen."""
        check_is_fitted(self, "ranking_")
        return self.ranking_.predict(self._features(X, reset=False), coverage=coverage)


class NetworkClassifier(ClassifierMixin, _OnNetworks):  # type: ignore[misc]
    """Predict a class of networks from their weights.

    Logistic regression on standardised features; ``X`` is as in :class:`NetworkRegressor`.

    Args:
        strength: inverse of the regularisation, or None to choose it by cross-validation.
        activation: of all hidden layers, where files do not tell.
        random_state: of divisions.
    """

    classes_: npt.NDArray[Any]
    model_: Any

    def __init__(
        self,
        *,
        strength: float | None = 0.1,
        activation: str | None = None,
        random_state: int = 0,
    ) -> None:
        self.strength = strength
        self.activation = activation
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit to networks.

        Args:
            X: networks.
            y: the class of each.
            groups: the source of each, for the choice of the regularisation.
        """
        from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 (slow to import)
        from sklearn.model_selection import GridSearchCV, GroupKFold  # noqa: PLC0415
        from sklearn.pipeline import make_pipeline  # noqa: PLC0415
        from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

        features = self._features(X, reset=True)
        _require_targets(y)
        labels = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        if labels.shape != (len(features),):
            raise DataError("y", expected=f"[{len(features)}]", found=f"{list(labels.shape)}")
        self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            raise DataError(
                "y", expected="more than one class", found=f"{len(self.classes_)} class"
            )
        chosen = 0.1 if self.strength is None else self.strength
        model = make_pipeline(StandardScaler(), LogisticRegression(C=chosen, max_iter=1000))
        if self.strength is None:
            numbers = group_numbers([None] * len(features) if groups is None else list(groups))
            search = {"logisticregression__C": [1e-3, 1e-2, 1e-1, 1.0]}
            folds = GroupKFold(min(5, int(numbers.max()) + 1))
            model = GridSearchCV(model, search, cv=folds).fit(features, labels, groups=numbers)
        else:
            model.fit(features, labels)
        self.model_ = model
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The class of each network."""
        check_is_fitted(self, "model_")
        return np.asarray(self.model_.predict(self._features(X, reset=False)))

    def predict_proba(self, X: Any) -> Array:
        """The chance of each class, in the order of ``classes_``."""
        check_is_fitted(self, "model_")
        return np.asarray(self.model_.predict_proba(self._features(X, reset=False)))


def _targets(y: Any, count: int) -> Array:
    _require_targets(y)
    values = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    values = column_or_1d(values, warn=True)
    if values.shape != (count,):
        raise DataError("y", expected=f"[{count}]", found=f"{list(values.shape)}")
    return np.asarray(values, dtype=np.float64)


def _require_targets(y: Any) -> None:
    if y is None:
        raise DataError(
            "fit requires y to be passed, but the target y is None",
            expected="one label for each network",
            found="none",
        )


def _is_table(X: Any) -> bool:
    """Whether something is an array, frame or sparse matrix of numbers rather than networks."""
    from scipy.sparse import issparse  # noqa: PLC0415

    if issparse(X) or hasattr(X, "iloc"):
        return True
    if isinstance(X, np.ndarray) or hasattr(X, "__array_function__"):
        return np.asarray(X).dtype.kind != "O" or getattr(X, "ndim", 1) > 1
    first = X[0] if isinstance(X, list | tuple) and X else None
    return isinstance(first, list | int | float | np.ndarray | np.number)
