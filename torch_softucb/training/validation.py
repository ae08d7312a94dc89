"""Validation: regret of the learned policy and of baselines, on the same problems with the same noise."""

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from torch_softucb.learning.episode import Episode
from torch_softucb.policies import BanditPolicy, EpsilonGreedy, LinTS, LinUCB, SoftUCBPolicy
from torch_softucb.problems.base import BanditProblem

OWN = "soft_ucb"
_DEPEND_ON_BETA = (OWN, "lin_ucb_same_beta")  # the others play the same in every validation


def baselines(policy: SoftUCBPolicy, *, beta: float, theory: Mapping[str, Any]) -> dict[str, BanditPolicy]:
    """Build the baselines of a policy, by the names of :data:`~torch_softucb.training.tags.BASELINES`.

    Args:
        policy: policy whose dim, ridge weight, device and dtype they share.
        beta: confidence width of the LinUCB that plays at the same beta.
        theory: ``subgaussian_r``, ``fail_prob`` and ``horizon`` of the theoretical settings.
    """
    shared: dict[str, Any] = {"ridge_alpha": policy.ridge_alpha, "device": policy.device, "dtype": policy.dtype}
    return {
        "lin_ucb_bound": LinUCB.theoretical(policy.dim, **theory, **shared),
        "lin_ucb_same_beta": LinUCB(policy.dim, beta=beta, **shared),
        "lin_ts": LinTS.theoretical(policy.dim, **theory, **shared),
        "epsilon_greedy": EpsilonGreedy(policy.dim, epsilon=0.05, **shared),
    }


class RegretCurves:
    """Play policies on an episode and cache the curves of those that do not depend on beta."""

    def __init__(self) -> None:
        self._played: dict[tuple[str, int, int], tuple[BanditProblem, Tensor]] = {}

    def play(
        self, policies: Mapping[str, BanditPolicy], episode: Episode, *, horizon: int, compile: bool | str
    ) -> dict[str, Tensor]:
        """Return the cumulative regret ``(T, B)`` of every policy; this process's share of the trajectories."""
        curves = {}
        for name, policy in policies.items():
            key = (name, episode.noise_seed, episode.action_seed)
            known, curve = self._played.get(key, (None, None))
            if curve is None or name in _DEPEND_ON_BETA or not _same_problem(known, episode.problem):
                curve = episode.play(policy, horizon=horizon, compile=compile).cumulative_regret
                self._played[key] = episode.problem, curve
            curves[name] = curve
        return curves


def _same_problem(one: BanditProblem | None, other: BanditProblem) -> bool:
    """Whether two problems have equal fields: loaders may return other problems under the number of an earlier batch."""
    if one is None or type(one) is not type(other):
        return False
    pairs = [(getattr(one, field.name), getattr(other, field.name)) for field in fields(one)]
    return one is other or all(
        torch.equal(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else a is b or (a == b) is True
        for a, b in pairs
    )


def validation_row(curves: Mapping[str, Tensor]) -> dict[str, float]:  # name -> (T, B)
    """Return the final mean regret of every policy, and the 95% band of the learned one, by tag."""
    last = curves[OWN][-1]
    mean, band = float(last.mean()), 1.96 * float(last.std(correction=0)) / math.sqrt(len(last))
    row = {f"validation/{name}": float(curve[-1].mean()) for name, curve in curves.items()}
    return row | {f"validation/{OWN}_low": mean - band, f"validation/{OWN}_high": mean + band}


def join_curves(before: Mapping[str, Tensor], new: Mapping[str, Tensor]) -> dict[str, Tensor]:  # name -> (T, B)
    """Concatenate the curves of the batches of a validation."""
    return {name: torch.cat([before[name], curve], dim=1) for name, curve in new.items()}


def gather_trajectories(curves: Mapping[str, Tensor], all_gather: Any) -> dict[str, Tensor]:
    """Concatenate the shares of all processes."""
    return {name: torch.cat(list(all_gather(curve)), dim=1) for name, curve in curves.items()}
