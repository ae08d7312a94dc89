"""Classification tables as bandits: one arm per class, reward 1 for the right class."""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_softucb.errors import DataError
from torch_softucb.problems.mixed_tables import Column, read_mixed_table
from torch_softucb.problems.tables import find_table


class ClassificationData(NamedTuple):
    """A table to play as a bandit: each row is a context, each class an arm.

    Attributes:
        contexts: float64 ``(n, d)``: categories as indicators, numbers standardised, a constant; rows have length 1.
        label: int64 ``(n,)``, the arm with reward 1.
        classes: names of the arms.
    """

    contexts: Tensor  # (n, d)
    label: Tensor  # (n,)
    classes: tuple[str, ...]


def load_classification(
    path: str | os.PathLike[str] | None = None,
    *,
    name: str | None = None,
    target: str = "class",
) -> ClassificationData:
    """Load a table with a column of classes.

    Args:
        path: ARFF or CSV file, plain or .gz, or a folder that contains it; None searches ``$SOFTUCB_DATA/uci``.
        name: name of the file without its ending; needed unless ``path`` is a file.
        target: name of the column of classes, in any case.

    Raises:
        DataError: there is no such file or column, or the file is damaged.
    """
    where = "load_classification"
    names = [f"{name}{ending}" for ending in (".arff", ".csv")] if name else ["*.arff"]
    file = find_table(where, path, names, ["uci"])
    columns = read_mixed_table(where, file)
    found = [column for column in columns if column.name.lower() == target.lower()]
    if len(found) != 1:
        raise DataError(
            f"{where}: {file} must have one column named {target}, got {', '.join(column.name for column in columns)}; "
            "name it with target="
        )
    label, classes = _labels(where, file, found[0])
    features = [_encoded(column) for column in columns if column is not found[0]]
    contexts = np.concatenate([*features, np.ones((len(label), 1))], axis=1)
    contexts /= np.linalg.norm(contexts, axis=1, keepdims=True)
    return ClassificationData(torch.from_numpy(contexts), torch.from_numpy(label), classes)


def _labels(where: str, file: Path, column: Column) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    missing = [row for row, value in enumerate(column.values) if value is None]
    if missing:
        raise DataError(f"{where}: {file}: every row needs a class, got none in {len(missing)} rows, the first {missing[0]}")
    classes = tuple(sorted({str(value) for value in column.values}))
    position = {name: i for i, name in enumerate(classes)}
    return np.array([position[str(value)] for value in column.values], dtype=np.int64), classes


def _encoded(column: Column) -> NDArray[np.float64]:  # (n, number of categories) or (n, 1)
    """Return categories as indicators (0 in all of them if missing), numbers with mean 0 and deviation 1 (0 if missing)."""
    if column.categories is not None:
        values = np.array([[value == category for category in column.categories] for value in column.values])
        return values.astype(np.float64).reshape(len(column.values), -1)
    numbers = np.array([np.nan if value is None else value for value in column.values], dtype=np.float64)
    spread = np.nanstd(numbers)
    centred = (numbers - np.nanmean(numbers)) / (spread if spread > 0 else 1.0)
    return np.nan_to_num(centred)[:, None]
