"""A small table of ratings, and facts about its films."""

import numpy as np

from experiments.recommender.cold_items import FilmFacts
from torch_softucb.problems import Ratings


def ratings(users=24, films=30, *, missing=0.2, seed=0):
    """Ratings from 1 to 5 of films with a quality and users with a taste; some are missing."""
    rng = np.random.default_rng(seed)
    quality, taste, factor = rng.normal(size=films), rng.normal(size=(users, 2)), rng.normal(size=(films, 2))
    value = np.clip(np.round(3 + quality + taste @ factor.T / 2), 1, 5)
    user, film = np.nonzero(rng.random((users, films)) > missing)
    return Ratings(user, film, value[user, film], users, films)


def facts(films=30, *, seed=0):
    """Years and genres; film number i has the id 100 + i."""
    rng = np.random.default_rng(seed)
    return FilmFacts(np.arange(100, 100 + films), 1960.0 + np.arange(films), rng.integers(0, 2, (films, 4)).astype(float))
