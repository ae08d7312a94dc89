"""SoftUCB without a number to choose: offset, noise and prior scale are estimated from the rewards."""

import math
from typing import Any, ClassVar, TypedDict, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_softucb.checks import check_integer
from torch_softucb.functional.scales import _joint_width, _offset_width
from torch_softucb.policies import auto_fast_path, fast_path
from torch_softucb.policies._checks import check_keywords
from torch_softucb.policies.beta.base import BetaModule
from torch_softucb.policies.beta.summary import PRETRAINED_AUTO, SummaryBeta
from torch_softucb.policies.decision import Decision, Estimate
from torch_softucb.policies.estimates import estimate_arms
from torch_softucb.policies.prior import GaussianPrior
from torch_softucb.policies.prior_scales import summarised
from torch_softucb.policies.scales import (
    NOISE_STD,
    SCALE_SUMS,
    SUM_X,
    SUMMARY_START,
    Groups,
    Observed,
    ScaleMemory,
    anchored,
    estimated,
    fresh_memory,
    group,
    impossible,
    settled,
    unpack_memory,
)
from torch_softucb.policies.single_requests import check_found
from torch_softucb.policies.soft_ucb import SoftUCBPolicy
from torch_softucb.policies.updates import Change, MemorySums, UpdateRule, updated_rows


class AutoKwargs(TypedDict, total=False):
    """Keyword arguments that the policy accepts; see :class:`~torch_softucb.BanditPolicy` for their meaning."""

    refresh_every: int
    prior: GaussianPrior | None
    device: torch.device | str | None
    dtype: torch.dtype | None


BETA, DELTA = 2.0, 1 - 1e-15  # chosen on synthetic problems and on shuffles of the exam that are not reported


class AutoSoftUCB(SoftUCBPolicy):
    """SoftUCB in units of the noise; :meth:`SoftUCBPolicy.auto <torch_softucb.SoftUCBPolicy.auto>` builds it.

    Rewards are modelled as y = c + x . theta + noise. The offset c, the standard deviation of the noise and that of theta
    are estimated from the rewards (:func:`torch_softucb.functional.evidence_scales`), again whenever the number of
    observations has grown by 30%. The width of a decision is in the unit of the rewards: the posterior deviation of
    c + x . theta, where V = rho I + sum x x^T and rho is the noise variance over the variance of theta. So beta is a number
    without a unit. Rewards a y + c and features s Q x, with a, s > 0 and a rotation Q, lead to the same decisions as y and
    x. While the noise is not known (fewer than three rewards, or all of them equal), arms are ranked by width alone.

    With a ``prior``, offset, noise and the distribution of theta are the prior's from the first decision on, and nothing is
    estimated but the inputs of beta.

    Args:
        dim: number of features d.
        beta_init: initial beta, as in :class:`~torch_softucb.SoftUCBPolicy`, in units of the noise.
        delta: as in :class:`~torch_softucb.SoftUCBPolicy`.
        learn_delta: as in :class:`~torch_softucb.SoftUCBPolicy`.
        smoothing: as in :class:`~torch_softucb.SoftUCBPolicy`; the coldness is ``smooth``.
        rows_per_group: number of consecutive bandits of the batch that share their scales, because their rewards have the
            same unit: 1 for separate scales, None for one set for all (users of one product), K for the arms of
            :class:`~torch_softucb.DisjointArms`, which sets it.
        **policy_kwargs: ``refresh_every``, ``prior``, ``device``, ``dtype``, as in :class:`~torch_softucb.BanditPolicy`.

    Example:
        >>> policy = AutoSoftUCB(dim=2, beta_init=1.0)
        >>> for _ in range(50):  # dollars or cents, stars or clicks: the decisions are the same
        ...     policy.update(torch.eye(2), torch.tensor([4.0, 3.0]) + 0.1 * torch.randn(2))
        >>> policy(torch.eye(2)).probs[0] > 0.99
        tensor(True)
        >>> bool(policy.noise_std < 0.2)
        True
    """

    own_settings: ClassVar[tuple[str, ...]] = ("rows_per_group",)
    uniform_advice: ClassVar[str] = (
        "The rewards so far show no difference between the candidates; check that rewards reach update() with the features "
        "of the candidate that was shown, and that features differ between candidates."
    )

    def __init__(
        self,
        dim: int,
        *,
        beta_init: float | Tensor | BetaModule = BETA,
        delta: float = DELTA,
        learn_delta: bool = False,
        smoothing: float = 0.1,
        differentiate_gamma: bool = False,
        rows_per_group: int | None = 1,
        **policy_kwargs: Unpack[AutoKwargs],
    ) -> None:
        check_keywords("AutoSoftUCB", policy_kwargs, AutoKwargs.__annotations__)  # the ridge weight is estimated
        super().__init__(
            dim,
            beta_init=beta_init,
            delta=delta,
            learn_delta=learn_delta,
            coldness="smooth",
            smoothing=smoothing,
            differentiate_gamma=differentiate_gamma,
            **policy_kwargs,
        )
        if rows_per_group is not None:
            check_integer("AutoSoftUCB", "rows_per_group", rows_per_group, low=1)
        self.rows_per_group = rows_per_group
        self.rows_are_arms = False  # set by DisjointArms

    @property
    def settings(self) -> dict[str, Any]:
        """Keyword arguments of the constructor that, with ``dim``, reproduce the policy except for beta and statistics."""
        return {name: value for name, value in super().settings.items() if name not in ("ridge_alpha", "coldness")}

    @property
    def pooled(self) -> bool:
        """Whether all bandits of the batch share one set of scales."""
        return self.rows_per_group is None

    @classmethod
    def _initial_memory(cls, dim: int, module: BetaModule | None) -> Tensor | None:  # (M,)
        return fresh_memory(dim)

    def fresh_memory(self, batch_shape: tuple[int, ...] = ()) -> Tensor:  # (*batch_shape, M)
        """Memory of bandits without observations; with a prior, the noise is known."""
        memory = super().fresh_memory(batch_shape).double()
        if self.prior is not None:
            memory[..., NOISE_STD] = self.prior.noise_std
        return memory

    def impossible_memory(self, memory: Tensor) -> Tensor:  # (n, M) -> (n,)
        """Return which rows hold sums or scales that no sequence of updates leads to."""
        return impossible(memory)

    @property
    def keeps_sums(self) -> bool:
        """False: the memory holds other sums than those of ``Estimate.running_sums``."""
        return False

    @property
    def memory_sums(self) -> MemorySums:
        """How the memory takes in observations."""
        return SCALE_SUMS

    @property
    def scales(self) -> ScaleMemory:
        """Sums and scales of each bandit, as views of the statistics."""
        return unpack_memory(self.state.memory)

    def _per_group(self, value: Tensor) -> Tensor | None:  # (*B,) -> (*B,) or ()
        known = self.scales.known
        if not bool(known.any()):
            return None
        value = torch.where(known, value, torch.full_like(value, torch.nan)).to(self.dtype)
        return value.flatten()[0] if self.pooled else value

    @property
    def offset(self) -> Tensor | None:  # (*B,), or () if pooled
        """Offset c that was found, in the unit of the rewards; NaN where it is not known, None if nowhere."""
        known = 0.0 if self.prior is None else self.prior.offset
        return self._per_group(self.scales.anchor + self.scales.offset + known)

    @property
    def noise_std(self) -> Tensor | None:  # (*B,), or () if pooled
        """Standard deviation of the noise that was found, in the unit of the rewards; NaN or None as for ``offset``."""
        return self._per_group(self.scales.noise_std)

    @property
    def prior_std(self) -> Tensor | None:  # (*B,), or () if pooled
        """Standard deviation of each component of theta that was found; NaN or None as for ``offset``.

        With a prior, the root mean square of the components' deviations.
        """
        if self.prior is not None:
            return self._per_group(self.prior.covariance.diagonal().mean().sqrt().expand(self.batch_shape))
        return self._per_group(self.scales.noise_std / self.scales.rho.sqrt())

    def _estimate(self, where: str, arms: Tensor, bandit: Tensor | None, pending: Tensor | None = None) -> Estimate:
        state = self.layout.unpack(self._rows(bandit))
        memory = unpack_memory(state.memory)
        state = state._replace(b=state.b - memory.offset.unsqueeze(-1) * memory.sum_x)  # sum x (y - c)
        found = estimate_arms(where, state, arms, pending, convert_memory=False, sums=None)
        of_offset = _offset_width(arms, memory.offset_direction.to(arms.dtype), memory.offset_variance.to(arms.dtype))
        return in_units(found._replace(width=_joint_width(found.width, of_offset)), memory)

    @property
    def has_single_beta(self) -> bool:
        """Whether :meth:`choose_one` can compute beta: one number for all bandits, or a :class:`SummaryBeta`."""
        module = self.beta_module
        if self.raw_delta is not None:
            return False
        return not self.raw_beta.dim() if module is None else isinstance(module, SummaryBeta)

    def _decide_one(self, where: str, row: Tensor, arms: Tensor, mask: Tensor | None) -> Decision | None:
        if not self.has_single_beta:
            return None
        found, numbers = auto_fast_path.estimate(row, arms, self.layout, self.prior), row.numpy()
        count = float(numbers[self.layout.num_observations])
        return self.choose_one(where, arms, mask, found, numbers[self.layout.memory], count)

    def choose_one(
        self,
        where: str,
        features: Tensor,  # (K, d) or (d,)
        mask: Tensor | None,  # (K,)
        found: fast_path.ArmEstimate,
        memory: fast_path.Array,  # (M,)
        num_observations: float,
    ) -> Decision:
        """Decide on estimates in numpy; see :meth:`SingleRequests.choose_one`."""
        module = self.beta_module
        if module is None:
            return super().choose_one(where, features, mask, found, memory, num_observations)
        assert isinstance(module, SummaryBeta)
        check_found(where, features, found)
        num_arms = len(found.mu_hat) if mask is None else int(np.count_nonzero(mask.numpy()))
        dtype: type[np.floating[Any]] = np.float32 if features.dtype == torch.float32 else np.float64
        situation: NDArray[np.floating[Any]] = np.empty(SUM_X - SUMMARY_START + 3, dtype)
        situation[:-3] = memory[SUMMARY_START:SUM_X]
        situation[-3:] = math.log(num_arms), math.log(self.layout.dim), num_observations
        beta = module.single(situation)
        return self._choose(where, features, mask, found, beta, situation=torch.from_numpy(situation))

    def _observe_one(self, row: Tensor, x: Tensor, reward: Tensor, decision: Decision | None) -> fast_path.Array | None:
        return auto_fast_path.observed(row, x, reward, self.refresh_every, self.layout, self.prior)

    def _change(
        self,
        statistics: Tensor,  # (*B, size)
        x: Tensor,  # as in updated_rows
        reward: Tensor,  # as in updated_rows
        bandit: Tensor | None,  # (N,)
        rule: UpdateRule,
        discount: float,
    ) -> Change:
        """Compute an update, with the scales of the groups that are due."""
        rows = statistics.reshape(-1, self.layout.size)
        observed = _listed(rows, x, reward, bandit)
        if not len(observed.row):
            return updated_rows(statistics, x, reward, bandit, rule, discount)
        groups: Groups = group(observed.row, self.rows_per_group or len(rows), rows_are_arms=self.rows_are_arms)
        start, relative, estimate = rows, observed.reward, summarised
        if self.prior is None:
            (start, relative), estimate = anchored(rows, self.layout, groups, observed), estimated
        change = updated_rows(start.view_as(statistics), x, relative.view_as(reward), bandit, rule, discount)
        written = torch.arange(len(rows), device=rows.device) if change.rows is None else change.rows
        ids, new = settled(start, written, change.new.reshape(-1, self.layout.size), self.layout, groups, estimate)
        if change.rows is None:
            return Change(None, statistics, new.view_as(statistics))
        return Change(ids, rows[ids], new)


def default_beta(horizon: int | None) -> tuple[float | Tensor | BetaModule, float]:
    """Return the beta and the delta that come with the package."""
    if not PRETRAINED_AUTO.exists():
        return BETA, DELTA
    module, about = SummaryBeta.load(PRETRAINED_AUTO, horizon=horizon)
    return module, float(about["delta"])


def in_units(estimate: Estimate, memory: ScaleMemory) -> Estimate:
    """Return the estimate with widths in the unit of the rewards; where the noise is not known, without means."""
    like, known = estimate.mu_hat, memory.known.unsqueeze(-1)
    noise = torch.where(known, memory.noise_std.unsqueeze(-1), torch.ones_like(memory.noise_std.unsqueeze(-1)))
    return estimate._replace(
        mu_hat=torch.where(known, like, torch.zeros_like(like)),
        width=estimate.width * noise.to(like.dtype),
        offset=(memory.anchor + memory.offset).to(like.dtype),
        summary=memory.summary.to(like.dtype),
    )


def _listed(rows: Tensor, x: Tensor, reward: Tensor, bandit: Tensor | None) -> Observed:  # (R, size)
    """Return the observations of an update as a list, in their order."""
    d = x.shape[-1]
    if bandit is None:
        per_row = reward.numel() // len(rows)
        row = torch.arange(len(rows), device=x.device).repeat_interleave(per_row)
    else:
        row = bandit.repeat_interleave(reward.numel() // max(1, len(bandit)))
    return Observed(row, x.reshape(-1, d), reward.reshape(-1))
