"""What moved predictions away from the mean, by column, and which fitted rows are similar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mondrian_kernel import _settings as settings
from mondrian_kernel._typing import FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    r"""Predictions of rows, taken apart by column: :math:`f(x) = base + \sum_j c_j(x)`.

    The contributions are Shapley values: the change of the prediction when a column of another row
    becomes that of this row, averaged over the rows of a background and over orders of the columns.

    Attributes
    ----------
    base : float or ndarray of shape (n_outputs,)
        Mean prediction of the background, which stands for all fitted rows.
    contributions : ndarray of shape (n_samples, n_features) or (n_samples, n_features, n_outputs)
        Contribution of each input column. With ``base`` they add up to ``prediction``.
    prediction : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Predictions; of a classifier the probabilities, or its scores where it has none.
    names : list
        Names of the input columns.
    classes : ndarray of shape (n_classes,) or None
        Classes that the outputs belong to; of two classes with scores, only the second has one.
    neighbours : ndarray of shape (n_samples, n_neighbours) or None
        Places, in the table that was fitted, of the rows with the largest kernel to each row, the
        most similar first. None where the model does not keep its rows.
    similarity : ndarray of shape (n_samples, n_neighbours) or None
        Their kernel, between 0 and 1.
    neighbour_targets : ndarray of shape (n_samples, n_neighbours) or (..., n_outputs), or None
        Their targets.

    Examples
    --------
    >>> import numpy as np
    >>> from mondrian_kernel import MondrianKernelRegressor
    >>> X = np.random.default_rng(0).uniform(size=(100, 2))
    >>> model = MondrianKernelRegressor(n_estimators=50, random_state=0).fit(X, X[:, 0])
    >>> found = model.explain(X[:3])
    >>> found.contributions.shape, found.neighbours[:, 0].tolist()
    ((3, 2), [0, 1, 2])
    >>> total = found.base + found.contributions.sum(axis=1)
    >>> bool(np.allclose(total, model.predict(X[:3])))
    True
    """

    base: Any
    contributions: FloatArray
    prediction: FloatArray
    names: list[Any]
    classes: NDArray[Any] | None = None
    neighbours: NDArray[np.int64] | None = None
    similarity: FloatArray | None = None
    neighbour_targets: NDArray[Any] | None = None

    def __repr__(self) -> str:
        n = len(self.prediction)
        lines = [f"Explanation of {n} row{'' if n == 1 else 's'}"]
        lines += [self._sentence(i) for i in range(min(n, settings.EXPLAIN_SHOWN))]
        return "\n".join(lines + ["  ..."] * (n > settings.EXPLAIN_SHOWN))

    def _sentence(self, i: int) -> str:
        """Return the sum of one row in words, for its first output or its likeliest class."""
        flat = self.prediction.ndim == 1
        k = 0 if flat or self.classes is None else int(self.prediction[i].argmax())
        parts = self.contributions[i] if flat else self.contributions[i, :, k]
        value = self.prediction[i] if flat else self.prediction[i, k]
        base = self.base if flat else self.base[k]
        what = "" if self.classes is None else f" for {self.classes[-1 if flat else k].item()!r}"
        order = np.argsort(-np.abs(parts), kind="stable")
        terms = [(parts[j], self.names[j]) for j in order[: settings.EXPLAIN_SHOWN]]
        rest = order[settings.EXPLAIN_SHOWN :]
        if rest.size:
            terms.append((parts[rest].sum(), f"{rest.size} other"))
        text = " ".join(f"{'-' if c < 0 else '+'} {abs(c):.3g} ({name})" for c, name in terms)
        out = f"  row {i}: {value:.4g}{what} = {base:.4g} {text}"
        if self.neighbours is not None and self.neighbour_targets is not None:
            near = zip(self.neighbours[i], self.neighbour_targets[i].tolist(), strict=True)
            shown = [f"{row} (y = {_short(y)})" for row, y in near][: settings.EXPLAIN_SHOWN]
            out += f"\n    most similar fitted rows: {', '.join(shown)}"
        return out


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
