"""SoftUCB's decision on a single request, in numpy; see fast_path.py."""

import math

import numpy as np
import torch
from torch import Tensor

from torch_softucb.checks import check_finite
from torch_softucb.policies import fast_path
from torch_softucb.policies._checks import check_statistics, decision_error
from torch_softucb.policies.decision import Decision
from torch_softucb.policies.lazy_decision import LazyDecision
from torch_softucb.policies.learnable import LearnableConfidence


class SingleRequests(LearnableConfidence):
    """Base of policies that decide on a single request without torch operations.

    Attributes:
        coldness: as in :class:`~torch_softucb.SoftUCBPolicy`.
        smoothing: as in :class:`~torch_softucb.SoftUCBPolicy`.
    """

    coldness: str
    smoothing: float

    @property
    def kappa(self) -> float | None:
        """Value of ``smoothing`` if the coldness is smooth, else None."""
        return self.smoothing if self.coldness == "smooth" else None

    @property
    def has_single_beta(self) -> bool:
        """Whether :meth:`choose_one` can compute beta: one number for all bandits, and a fixed delta."""
        return self.beta_module is None and self.raw_delta is None and not self.raw_beta.dim()

    def _decide_one(self, where: str, row: Tensor, arms: Tensor, mask: Tensor | None) -> Decision | None:
        if not self.has_single_beta:
            return None
        found = fast_path.estimate(row, arms, self.layout, self.prior)
        check_found(where, arms, found)
        return self._choose(where, arms, mask, found, self.raw_beta.item(), carried=row)

    def choose_one(
        self,
        where: str,
        features: Tensor,  # (K, d) or (d,)
        mask: Tensor | None,  # (K,)
        found: fast_path.ArmEstimate,
        memory: fast_path.Array,  # (M,)
        num_observations: float,
    ) -> Decision:
        """Decide on estimates in numpy; only if :attr:`has_single_beta`.

        Args:
            where: what error messages begin with.
            features: features behind the estimates.
            mask: allowed arms.
            found: estimates of the arms.
            memory: memory of the row, or of the first row of the group.
            num_observations: number of observations so far.
        """
        check_found(where, features, found)
        return self._choose(where, features, mask, found, self.raw_beta.item())

    def _choose(
        self,
        where: str,
        arms: Tensor,  # (K, d) or (d,)
        mask: Tensor | None,  # (K,)
        found: fast_path.ArmEstimate,
        raw_beta: float,
        *,
        situation: Tensor | None = None,  # (F,)
        carried: Tensor | None = None,  # (size,)
    ) -> LazyDecision:
        """Decide by :func:`fast_path.soft_choice`."""
        if not math.isfinite(raw_beta):
            raise decision_error(where, [raw_beta], True)
        beta = max(raw_beta, 0.0)  # D9
        choice = fast_path.soft_choice(
            found.mu_hat,
            found.width,
            beta,
            delta=self.fixed_delta,
            smoothing=self.kappa,
            carried=None if carried is None or self.coldness != "lagged" else carried[self.layout.gamma].item(),
            mask=None if mask is None else mask.numpy(),
        )
        if not math.isfinite(choice.top + choice.gamma):
            raise decision_error(where, [beta], math.isfinite(choice.top))
        return LazyDecision(
            dtype=arms.dtype,
            mask=mask,
            situation=situation,
            mu_hat=found.mu_hat + found.offset if found.offset else found.mu_hat,
            width=found.width,
            beta=beta,
            probs=choice.probs,
            index=choice.S,
            gamma=choice.gamma,
            next_gamma=choice.next_gamma,
        )


def check_found(where: str, features: Tensor, found: fast_path.ArmEstimate) -> None:
    """Raise, naming the cause, if an estimate is NaN or infinite."""
    if not math.isfinite(np.add.reduce(found.mu_hat) + np.add.reduce(found.width)):
        check_finite(where, "arms" if features.dim() == 2 else "context", features)
        check_statistics(where, torch.from_numpy(found.mu_hat))
