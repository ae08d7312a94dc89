"""A two-tower recommender trained on known users, and what it provides for new ones: film features and film means."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from torch_softucb.problems.movielens import Ratings
from torch_softucb.recommend import FeatureMap

DIM = 12


class TwoTower(nn.Module):
    """Predict a rating as the film's mean plus the user's mean plus the dot product of their vectors."""

    def __init__(self, users: int, films: int) -> None:
        super().__init__()
        self.user, self.film = nn.Embedding(users, DIM), nn.Embedding(films, DIM)
        self.user_mean, self.film_mean = nn.Embedding(users, 1), nn.Embedding(films, 1)
        for table, scale in ((self.user, 0.1), (self.film, 0.1), (self.user_mean, 0.0), (self.film_mean, 0.0)):
            nn.init.normal_(table.weight, std=scale)

    def forward(self, user: Tensor, film: Tensor) -> Tensor:  # (n,), (n,) -> (n,)
        """Return the predicted ratings, relative to the overall mean."""
        product: Tensor = (self.user(user) * self.film(film)).sum(-1)
        means: Tensor = self.user_mean(user) + self.film_mean(film)
        return product + means.squeeze(-1)


class FilmTower(nn.Module):
    """Features of a film for a new user: its vector and its mean."""

    def __init__(self, towers: TwoTower) -> None:
        super().__init__()
        self.vector, self.mean = towers.film, towers.film_mean

    def forward(self, film: Tensor) -> Tensor:  # (*N, K) -> (*N, K, DIM + 1)
        """Return the features."""
        return torch.cat((self.vector(film), self.mean(film)), dim=-1)


def most_rated(data: Ratings, films: int) -> NDArray[np.int64]:  # (films,)
    """Return the numbers of the most-rated films in ascending order, the same films that fill_gaps selects."""
    return np.sort(np.argsort(-np.bincount(data.item, minlength=data.num_items), stable=True)[:films])


def raw_ratings(data: Ratings, films: int) -> Tensor:  # (users, films) in [0, 1], NaN where there is none
    """Return the given ratings of the most-rated films."""
    table = torch.full((data.num_users, data.num_items), torch.nan)
    low, high = data.value.min(), data.value.max()
    table[data.user, data.item] = torch.from_numpy((data.value - low) / (high - low)).float()
    return table[:, most_rated(data, films)]


def pretrain(ratings: Tensor, epochs: int) -> TwoTower:  # (users, films), NaN where there is none
    """Fit the towers to ratings."""
    torch.manual_seed(0)
    towers = TwoTower(*ratings.shape)
    user, film = (~ratings.isnan()).nonzero(as_tuple=True)
    value = ratings[user, film] - ratings[user, film].mean()
    optimizer = torch.optim.Adam(towers.parameters(), lr=0.02, weight_decay=1e-5)
    for _ in range(epochs):
        for rows in torch.split(torch.randperm(len(user)), 4096):
            optimizer.zero_grad()
            loss = (towers(user[rows], film[rows]) - value[rows]).square().mean()
            loss.backward()
            optimizer.step()
    return towers


class Features(NamedTuple):
    """What the towers know about the films.

    Attributes:
        items: ``(films, DIM + 2)`` features of each film: its vector and mean, normalised, and an intercept.
        popularity: ``(films, 1)`` its mean rating.
    """

    items: Tensor  # (films, DIM + 2)
    popularity: Tensor  # (films, 1)


@torch.no_grad()
def film_features(towers: TwoTower) -> Features:
    """Return the features of all films, as a head with ``intercept=True, normalise=True`` computes them."""
    films = torch.arange(towers.film.num_embeddings)
    values = FilmTower(towers)(films)
    features = FeatureMap(DIM + 1, intercept=True, normalise=True)
    features.fit([values])
    return Features(features(values), towers.film_mean.weight.clone())
