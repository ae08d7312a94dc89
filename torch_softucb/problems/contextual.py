"""Bandits whose candidates change from round to round, as in a recommender: an item pool and what is offered from it."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torch_softucb.checks import (
    check_choice,
    check_finite,
    check_float_tensor,
    check_integer,
    check_mask,
    check_not_negative,
    check_number,
    check_same_dtype,
    check_shape,
)
from torch_softucb.problems._checks import check_delay_probabilities, check_rounds_late
from torch_softucb.problems.base import BanditProblem

REWARDS = ("gaussian", "bernoulli", "empirical")
_DIGITS = 1000  # steps of the dtype that the means of a bandit must span


@dataclass(eq=False)
class ContextualProblem(BanditProblem):
    """A batch of linear bandits with changing candidates; :func:`contextual_problem` builds it.

    ``arms`` are the items of the pool and ``means`` their true mean rewards. In every round each bandit is offered some of
    them. The other fields of :class:`~torch_softucb.problems.BanditProblem` keep their meaning; ``mask`` has an entry per
    item, and items that are not allowed are never offered.

    Attributes:
        num_candidates: number of items K that are offered per round; None offers all items, in the order of the pool.
        weights: popularity of the items, of shape ``(M,)``: items are offered in proportion to it, without replacement. None
            offers all items equally often.
        sets: candidate sets of which one is drawn per round, of shape ``(L, K)`` int64; -1 where a set has fewer items. An
            item that is in a set twice is two arms.
        reward: ``gaussian``, ``bernoulli`` (0 or 1, with the mean as probability) or ``empirical``.
        residuals: noise values that ``empirical`` draws from, of shape ``(R,)``.
        delay: probability that a reward arrives 0, 1, ... rounds late, of shape ``(D + 1,)``; what is missing to 1 is the
            probability that it never arrives. None if every reward arrives before the next round.
    """

    num_candidates: int | None = None
    weights: Tensor | None = None  # (M,)
    sets: Tensor | None = None  # (L, K) int64
    reward: str = "gaussian"
    residuals: Tensor | None = None  # (R,)
    delay: Tensor | None = None  # (D + 1,)

    def __post_init__(self) -> None:
        super().__post_init__()
        where, device = "contextual_problem", self.arms.device
        if self.sets is not None:
            self._check_sets(where, self.sets)
        elif self.num_candidates is not None:
            check_integer(where, "candidates", self.num_candidates, low=1)
            if self.num_candidates > self.num_arms:
                raise ValueError(
                    f"{where}: candidates must be at most the number of items {self.num_arms}, got {self.num_candidates}"
                )
        if self.weights is not None:
            check_float_tensor(where, "weights", self.weights, device=device)
            if self.num_candidates is None:
                raise ValueError(f"{where}: weights go with a number of candidates, got none; use candidates=20")
            fits = self.weights.shape == (self.num_arms,)
            check_shape(where, "weights", self.weights.shape, fits, f"({self.num_arms},), one per item")
            check_not_negative(where, "weights", self.weights)
            allowed = self.weights > 0 if self.mask is None else (self.weights > 0) & self.mask
            if not bool(allowed.any(-1).all()):
                raise ValueError(f"{where}: at least one allowed item must have a weight above 0; got none in some bandit")
        check_choice(where, "reward", self.reward, REWARDS)
        if self.reward == "bernoulli" and not bool(((self.means >= 0) & (self.means <= 1)).all()):
            low, high = float(self.means.min()), float(self.means.max())
            raise ValueError(
                f"{where}: means of Bernoulli rewards must be in [0, 1], got {low:.3g} to {high:.3g}; rescale or clamp them"
            )
        if self.reward == "bernoulli" and self.rotated_means is not None:
            raise ValueError(f"{where}: Bernoulli rewards cannot drift, as rotating means leave [0, 1]; use 'gaussian'")
        if (self.reward == "empirical") != (self.residuals is not None):
            raise ValueError(f"{where}: residuals go with reward='empirical', and only with it, got reward={self.reward!r}")
        if self.residuals is not None:
            _check_residuals(where, self.residuals, self.means)
        if self.delay is not None:
            check_delay_probabilities(where, self.delay, device)

    def _check_sets(self, where: str, sets: Tensor) -> None:
        if not isinstance(sets, Tensor) or sets.dtype != torch.int64:
            got = f"dtype {sets.dtype}" if isinstance(sets, Tensor) else type(sets).__name__
            raise TypeError(f"{where}: candidate sets must be an int64 tensor of item numbers, got {got}")
        check_shape(where, "candidates", sets.shape, sets.dim() == 2 and sets.numel() > 0, "(L, K)")
        bad = ((sets < -1) | (sets >= self.num_arms)).any(-1)
        if bool(bad.any()):
            row = int(bad.nonzero()[0])
            raise ValueError(
                f"{where}: candidates must be item numbers below {self.num_arms}, or -1 for none, got "
                f"{sets[row].tolist()} in row {row}"
            )
        if self.mask is not None and self.mask.dim() > 1:
            raise ValueError(f"{where}: a mask per bandit cannot be combined with candidate sets; use a mask of shape (M,)")
        offered = sets >= 0 if self.mask is None else (sets >= 0) & self.mask[sets.clamp(min=0)]
        if not bool(offered.any(-1).all()):
            row = int((~offered.any(-1)).nonzero()[0])
            raise ValueError(f"{where}: every candidate set must have an item that is allowed, got none in row {row}")

    @property
    def slots(self) -> int:
        """Number of candidates K per round, with places that stay empty."""
        if self.sets is not None:
            return self.sets.shape[1]
        return self.num_arms if self.num_candidates is None else self.num_candidates

    @property
    def max_delay(self) -> int:
        """Largest number of rounds D that a reward can be late."""
        return 0 if self.delay is None else len(self.delay) - 1

    @property
    def fixed_delay(self) -> int | None:
        """Delay of all rewards; None if it is random."""
        if self.delay is None:
            return 0
        return self.max_delay if float(self.delay[-1]) >= 1 - 1e-6 else None


def _check_residuals(where: str, residuals: object, means: Tensor) -> None:
    check_float_tensor(where, "residuals", residuals, device=means.device)
    assert isinstance(residuals, Tensor)
    check_same_dtype(where, "residuals", residuals, "the items'", means.dtype)
    check_shape(where, "residuals", residuals.shape, residuals.dim() == 1 and len(residuals) > 0, "(R,), with R at least 1")
    check_finite(where, "residuals", residuals)


def contextual_problem(
    items: Tensor,  # (M, d) or (*B, M, d)
    *,
    means: Tensor | None = None,  # (*B, M)
    theta: Tensor | None = None,  # (*B, d)
    misfit: Tensor | None = None,  # (M,) or (*B, M)
    offset: float = 0.0,
    candidates: int | Tensor | None = None,  # (L, K) int64
    weights: Tensor | None = None,  # (M,)
    mask: Tensor | None = None,  # (M,) or (*B, M)
    noise_std: float | Tensor | None = None,
    reward: str = "gaussian",
    residuals: Tensor | None = None,  # (R,)
    delay: int | Tensor = 0,  # (D + 1,)
    ids: Tensor | None = None,  # (*B,)
) -> ContextualProblem:
    """Build bandits that are offered other items of a pool in every round.

    The random numbers follow the same law as the noise: what a trajectory is offered in a round depends on the seed of the
    noise, on the trajectory's id and on the round, so all policies of a comparison are offered the same candidates.

    Args:
        items: features of the M items.
        means: true mean reward of every item for every bandit; or give ``theta``.
        theta: parameter vectors; the means are then ``offset + items @ theta + misfit``.
        misfit: part of the means that is not linear in the features.
        offset: constant part of the means.
        candidates: number of items per round, or a table of candidate sets, one row of which is drawn per round (-1 fills
            rows that have fewer items), such as those of a log; by default all items in every round.
        weights: popularity of the items: the next candidate is drawn in proportion to it among those that are left. Costs
            O(M) per round.
        mask: True where an item may be offered; a bandit with fewer than ``candidates`` items is offered all of them.
        noise_std: standard deviation of Gaussian noise, 0.5 by default; for the other rewards it follows from them.
        reward: ``gaussian``, ``bernoulli`` or ``empirical``.
        residuals: noise values, for ``empirical``.
        delay: number of rounds by which rewards are late, or the probabilities of 0, 1, ... rounds. With 0, they are known
            before the next round.
        ids: ids of the trajectories; counted from 0 by default.

    Example:
        >>> from torch_softucb import SoftUCBPolicy, rollout
        >>> seeded = lambda seed: torch.Generator().manual_seed(seed)
        >>> items, theta = torch.randn(200, 8, generator=seeded(0)), torch.randn(32, 8, generator=seeded(1))
        >>> world = contextual_problem(items, theta=theta, candidates=20, delay=3)
        >>> world.slots, world.num_arms, world.batch_shape
        (20, 200, torch.Size([32]))
        >>> trajectory = rollout(SoftUCBPolicy.auto(8), world, horizon=60, generator=seeded(2))
        >>> bool(trajectory.regret[-20:].mean() < 0.5 * trajectory.regret[:20].mean())
        True
    """
    where = "contextual_problem"
    check_float_tensor(where, "items", items)
    if items.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"{where}: items must be float32 or float64, got {items.dtype}; use items.float()")
    check_shape(where, "items", items.shape, items.dim() >= 2, "(M, d) or (*B, M, d)")
    check_number(where, "offset", offset, low=-torch.inf, open_low=True)
    if (means is None) == (theta is None):
        raise ValueError(f"{where}: give either means or theta, got {'neither' if means is None else 'both'}")
    if theta is not None:
        check_float_tensor(where, "theta", theta, device=items.device)
        check_same_dtype(where, "theta", theta, "the items'", items.dtype)
        batch = tuple(items.shape[:-2])
        fits = theta.shape[-1:] == items.shape[-1:] and batch in ((), tuple(theta.shape[:-1]))
        check_shape(where, "theta", theta.shape, fits, f"(*B, {items.shape[-1]}), with B of the items if they have one")
        means = (items @ theta.unsqueeze(-1)).squeeze(-1)
    elif offset or misfit is not None:
        raise ValueError(f"{where}: offset and misfit go with theta; means already contain them")
    assert means is not None
    check_float_tensor(where, "means", means, device=items.device)
    if misfit is not None:
        check_float_tensor(where, "misfit", misfit, device=items.device)
        check_same_dtype(where, "misfit", misfit, "the items'", items.dtype)
        check_shape(where, "misfit", misfit.shape, misfit.shape in (means.shape[-1:], means.shape), "(M,) or (*B, M)")
        means = means + misfit
    means = means + offset if offset else means
    fits = means.shape[-1:] == items.shape[-2:-1]
    check_shape(where, "means", means.shape, fits, f"(*B, {items.shape[-2]}), one per item")
    _check_resolved(where, means)
    sets = candidates if isinstance(candidates, Tensor) else None
    if isinstance(delay, Tensor):
        check_delay_probabilities(where, delay, items.device)
    else:
        late = check_rounds_late(where, delay)
        delay = torch.nn.functional.one_hot(torch.tensor(late), late + 1).double().to(items.device)
    if mask is not None:
        check_mask(where, mask, means.shape, device=items.device)
    fields: dict[str, Any] = {"weights": weights, "sets": sets, "reward": reward, "residuals": residuals}
    return ContextualProblem(
        items,
        means,
        _noise_std(where, noise_std, reward, means, residuals),
        mask,
        ids,  # type: ignore[arg-type]  # None counts from 0
        num_candidates=None if isinstance(candidates, Tensor) else candidates,
        delay=None if len(delay) == 1 and float(delay[0]) >= 1 else delay,
        **fields,
    )


def _check_resolved(where: str, means: Tensor) -> None:
    """Refuse means that differ by less than their dtype can represent well."""
    if not means.numel() or not bool(means.isfinite().all()):
        return  # refused later
    spread, size = means.amax(-1) - means.amin(-1), means.abs().amax(-1)
    lost = (spread > 0) & (spread < _DIGITS * torch.finfo(means.dtype).eps * size)
    if bool(lost.any()):
        at = int(lost.flatten().nonzero()[0])
        raise ValueError(
            f"{where}: means around {float(size.flatten()[at]):.3g} differ by {float(spread.flatten()[at]):.3g} only, which "
            f"{means.dtype} cannot resolve; use float64, or subtract a constant from the rewards"
        )


def _noise_std(
    where: str, noise_std: float | Tensor | None, reward: str, means: Tensor, residuals: Tensor | None
) -> float | Tensor:
    """Return the standard deviation of the rewards around their means."""
    if reward == "gaussian" or reward not in REWARDS:
        return 0.5 if noise_std is None else noise_std
    if noise_std is not None:
        raise ValueError(f"{where}: noise_std goes with reward='gaussian', got {noise_std!r} with reward={reward!r}")
    if reward == "empirical":
        if residuals is None:
            return 0.0  # refused later
        _check_residuals(where, residuals, means)
        return float(residuals.double().std(correction=0))
    return float((means * (1 - means)).clamp(min=0).mean().sqrt())
