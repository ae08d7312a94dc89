"""New users of a recommender, and the same world made of known users to learn from."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from experiments.recommender.rows import Setting, all_rows, play
from experiments.recommender.towers import Features, film_features, pretrain, raw_ratings
from torch_softucb import ContextualProblem, EpsilonGreedy, GaussianPrior, contextual_problem, fit_prior
from torch_softucb.problems import Ratings, fill_gaps

FILMS, NOISE = 400, 0.1


class Scenario(NamedTuple):
    """New users and what is known before the first of them arrives.

    Attributes:
        setting: what policies are built and tuned with.
        world: the new users.
        popularity: the same users, with the film's mean as the only feature.
        features: what the towers know about the films.
        known: ratings of the known users, completed from these users alone, ``(users, films)``.
    """

    setting: Setting
    world: ContextualProblem
    popularity: ContextualProblem
    features: Features
    known: Tensor  # (users, films)


def rating_prior(items: Tensor, ratings: Tensor) -> GaussianPrior:  # (films, d), (users, films), NaN where there is none
    """Fit the prior of new users to a table of ratings."""
    user, film = (~ratings.isnan()).nonzero(as_tuple=True)
    return fit_prior(items[film], ratings[user, film], user)


def completed(ratings: Tensor) -> Tensor:  # (users, films), NaN where there is none
    """Fill the gaps of some users' ratings from these users alone."""
    user, film = (~ratings.isnan()).nonzero(as_tuple=True)
    value = ratings[user, film].double()
    low, high = float(value.min()), float(value.max())
    known = Ratings(user.numpy(), film.numpy(), value.numpy(), *ratings.shape)
    return low + (high - low) * torch.from_numpy(fill_gaps(known, num_items=ratings.shape[1])).float()


def new_users(
    data: Ratings,
    *,
    rounds: int = 100,
    candidates: int = 50,
    delay: int = 2,
    epochs: int = 30,
    seed: int = 0,
    unit: float = 1.0,
    low: float = 0.0,
    raw_prior: bool = False,
) -> Scenario:
    """Train towers on one half of the users, and make worlds of both halves.

    Args:
        data: ratings.
        rounds: recommendations per user.
        candidates: films to choose from per recommendation.
        delay: rounds until a reward arrives.
        epochs: epochs of pretraining.
        seed: seed of candidates, noise and draws.
        unit: rewards are ratings in [0, 1] times this number,
        low: plus this one.
        raw_prior: fit the prior to the given ratings of the known users, not to the completed ones that the worlds play.
    """
    films = min(FILMS, data.num_items)
    raw = raw_ratings(data, films)
    half = len(raw) // 2
    new = low + unit * torch.from_numpy(fill_gaps(data, num_items=films)).float()[half:]
    known = low + unit * completed(raw[:half])
    features = film_features(pretrain(raw[:half], epochs))

    def world(items: Tensor, means: Tensor) -> ContextualProblem:
        return contextual_problem(items, means=means, candidates=candidates, noise_std=NOISE * unit, delay=delay)

    others, rated = half // 2, low + unit * raw[:half] if raw_prior else known
    setting = Setting(
        dim=features.items.shape[1],
        horizon=rounds,
        prior=rating_prior(features.items, rated),
        tuning=world(features.items, known[others:]),
        tuning_prior=rating_prior(features.items, rated[:others]),
        seed=seed,
    )
    return Scenario(setting, world(features.items, new), world(features.popularity, new), features, known)


def by_popularity() -> EpsilonGreedy:
    """Return a policy that ranks films by their only feature, their mean, whatever the rewards are."""
    return EpsilonGreedy(1, epsilon=0.0, prior=GaussianPrior(torch.ones(1), torch.full((1, 1), 1e-12)))


def compare(scenario: Scenario, done: Callable[[str], object] = lambda name: None) -> dict[str, tuple[Tensor, float | None]]:
    """Return the regret ``(rounds, users)`` of every row on the new users, and the number that was tuned."""
    setting = scenario.setting
    results: dict[str, tuple[Tensor, float | None]] = {
        "popularity": (play(by_popularity(), scenario.popularity, setting.horizon, setting.seed), None)
    }
    for name, (policy, chosen) in all_rows(setting, done).items():
        results[name] = (play(policy, scenario.world, setting.horizon, setting.seed), chosen)
    return results
