"""Films that were released late: shared statistics over all users, and candidates that mix old films with new ones.

Of an old film the mean rating is known. Of a new one only its genres and year are, and these explain a part of the mean. The
reward is modelled as y = score + (effect of a new film) + noise: the score is what genres and year predict, or the known
mean of an old film, and the effect is a separate number per new film with a known prior variance. The features are the
score and an indicator per new film. A request comes from a random user, so the noise is that of ratings around the film's
mean.

Exploration is learned on old films, of which some are treated as if they were new, and played on those that are new.
"""

import csv
import gzip
import io
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from experiments.recommender.towers import most_rated
from torch_softucb import ContextualProblem, GaussianPrior, contextual_problem
from torch_softucb.errors import DataError
from torch_softucb.problems import Ratings

FILMS, NEW_SHARE, FOLDS = 400, 0.15, 5
Array = NDArray[np.float64] | NDArray[np.int64]
_FILES = {"u.item": "|", "movies.dat": "::", "movies.csv": ","}
_GENRES = 19  # columns of u.item


class FilmFacts(NamedTuple):
    """What is known about a film before anybody has rated it, by film id.

    Attributes:
        year: year of release, ``(n,)``; NaN where the table has none.
        genres: indicators, ``(n, g)``.
        id: film ids as in the table, ``(n,)``.
    """

    id: Array
    year: Array
    genres: Array


def load_facts(folder: Path) -> FilmFacts:
    """Read years and genres of MovieLens films."""
    for name, separator in _FILES.items():
        for file in (folder / name, folder / f"{name}.gz"):
            if file.exists():
                raw = file.read_bytes()
                encoding = "utf-8" if name.endswith(".csv") else "latin-1"
                text = (gzip.decompress(raw) if file.suffix == ".gz" else raw).decode(encoding)
                return _parse(_rows(text, separator), name)
    raise DataError(f"load_facts: {folder} must contain one of {', '.join(_FILES)}, or a .gz of it")


def _rows(text: str, separator: str) -> list[list[str]]:
    if separator == ",":
        return list(csv.reader(io.StringIO(text, newline="")))[1:]  # without the header
    return [line.split(separator) for line in text.replace("\r\n", "\n").split("\n") if line]


def _parse(rows: list[list[str]], name: str) -> FilmFacts:
    ids, years = [], []
    genres: list[list[Any]] = []
    for parts in rows:
        year = re.search(r"\((\d{4})\)", parts[1])
        ids.append(int(parts[0]))
        years.append(float(year.group(1)) if year else np.nan)
        genres.append([int(flag) for flag in parts[-_GENRES:]] if name == "u.item" else parts[-1].split("|"))
    if name != "u.item":
        names = sorted({genre for each in genres for genre in each})
        genres = [[int(genre in each) for genre in names] for each in genres]
    return FilmFacts(np.array(ids), np.array(years), np.array(genres, dtype=float))


class Sizes(NamedTuple):
    """Sizes of the worlds.

    Attributes:
        mixed: whether old films are offered beside new ones; otherwise only new films are, as on a shelf of new releases.
        trajectories: number of independent histories of requests.
        candidates: films per request, at most half of them all.
        delay: requests until a reward arrives.
    """

    mixed: bool = True
    trajectories: int = 64
    candidates: int = 30
    delay: int = 2


class ColdItems(NamedTuple):
    """A world with new films, and one of old films to learn from.

    Attributes:
        world: requests in which old and new films are offered.
        prior: of the score's weight and of the effects of the new films.
        tuning: the same with old films that are treated as new.
        tuning_prior: prior that goes with it.
    """

    world: ContextualProblem
    prior: GaussianPrior
    tuning: ContextualProblem
    tuning_prior: GaussianPrior


def predicted(design: Array, target: Array, at: Array) -> Array:  # (n, g), (n,), (m, g) -> (m,)
    """Return ridge predictions from genres and year."""
    ridge = design.T @ design + 2.0 * np.eye(design.shape[1])
    found: Array = at @ np.linalg.solve(ridge, design.T @ (target - target.mean())) + target.mean()
    return found


def _world(
    mean: Array,  # (films,)
    score: Array,  # (films,)
    new: Array,  # (n,)
    noise: tuple[Tensor, float],
    sizes: Sizes,
) -> tuple[ContextualProblem, GaussianPrior]:
    """Return a problem in which the films ``new`` have unknown effects, and its prior."""
    residuals, variance = noise
    if not sizes.mixed:
        mean, score, new = mean[new], score[new], np.arange(len(new))
    items = np.zeros((len(mean), 1 + len(new)))
    items[:, 0] = score - score.mean()
    items[new, 1 + np.arange(len(new))] = 1.0
    means = torch.from_numpy(mean).float().expand(sizes.trajectories, -1)
    problem = contextual_problem(
        torch.from_numpy(items).float(),
        means=means,
        candidates=max(2, min(sizes.candidates, len(mean) // 2)),
        reward="empirical",
        residuals=residuals,
        delay=sizes.delay,
    )
    spread = torch.full((1 + len(new),), variance, dtype=torch.float64)
    spread[0] = 1e-4
    weight = torch.zeros(1 + len(new), dtype=torch.float64)
    weight[0] = 1.0
    std = float(residuals.double().std(correction=0))
    return problem, GaussianPrior(weight, torch.diag(spread), noise_std=std, offset=float(score.mean()))


def cold_items(data: Ratings, facts: FilmFacts, film_ids: Array, sizes: Sizes) -> ColdItems:
    """Split films by their year of release and build the worlds.

    Args:
        data: ratings.
        facts: years and genres.
        film_ids: film id of each item of ``data``, ``(items,)``.
        sizes: sizes of the worlds.
    """
    chosen = most_rated(data, min(FILMS, data.num_items))
    low, high = data.value.min(), data.value.max()
    value = (data.value - low) / (high - low)
    count = np.bincount(data.item, minlength=data.num_items)[chosen]
    mean = np.bincount(data.item, value, data.num_items)[chosen] / count
    fact_of = {film: i for i, film in enumerate(facts.id.tolist())}
    at = np.array([fact_of[film] for film in film_ids[chosen]])
    year = np.nan_to_num(facts.year[at], nan=float(np.nanmedian(facts.year)))
    is_new = np.zeros(len(chosen), dtype=bool)
    is_new[np.argsort(year, stable=True)[-int(NEW_SHARE * len(chosen)) :]] = True
    scaled = (year - year.mean()) / max(year.std(), 1e-9)
    design = np.column_stack((np.ones(len(at)), facts.genres[at], scaled))
    known = np.isin(data.item, chosen[~is_new])
    place = np.full(data.num_items, -1)
    place[chosen] = np.arange(len(chosen))
    residuals = torch.from_numpy(value[known] - mean[place[data.item[known]]]).float()
    old = np.flatnonzero(~is_new)
    left_out = np.empty(len(old))  # what genres and year predict for an old film when its ratings are not used
    folds = np.arange(len(old)) % FOLDS
    for fold in range(FOLDS):
        rest = old[folds != fold]
        left_out[folds == fold] = predicted(design[rest], mean[rest], design[old[folds == fold]])
    variance = float(np.mean((mean[old] - left_out) ** 2))
    noise = residuals, variance
    new = np.flatnonzero(is_new)
    score = mean.copy()
    score[new] = predicted(design[old], mean[old], design[new])
    world, prior = _world(mean, score, new, noise, sizes)
    pseudo = np.flatnonzero(folds == 0)
    old_score = mean[old].copy()
    old_score[pseudo] = left_out[pseudo]
    tuning, tuning_prior = _world(mean[old], old_score, pseudo, noise, sizes)
    return ColdItems(world, prior, tuning, tuning_prior)
