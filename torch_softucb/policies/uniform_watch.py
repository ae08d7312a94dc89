"""Notice a policy that has stopped choosing: decisions that stay uniform over the candidates."""

import warnings
from typing import TYPE_CHECKING

import numpy as np
import torch

from torch_softucb.checks import values_readable
from torch_softucb.errors import UniformWarning
from torch_softucb.policies.decision import Decision
from torch_softucb.policies.lazy_decision import LazyDecision

if TYPE_CHECKING:
    from torch_softucb.policies.soft_ucb import SoftUCBPolicy

PATIENCE = 100  # uniform decisions in a row before the warning
_NEARLY = 1.02  # a decision counts as uniform if no probability is above this multiple of 1 / K


def is_uniform(decision: Decision) -> bool:
    """Return whether every request of a decision has more than two candidates and nearly equal probabilities."""
    mask = decision.mask
    if isinstance(decision, LazyDecision):  # creates no tensor
        numbers = np.asarray(decision.values["probs"])
        count = len(numbers) if mask is None else int(mask.sum())
        return count > 2 and float(numbers.max()) * count <= _NEARLY
    probs = decision.probs.detach()
    allowed = probs.shape[-1] if mask is None else mask.sum(-1)
    most = probs.amax(-1) * allowed
    return bool(((most <= _NEARLY) & (torch.as_tensor(allowed) > 2)).all())


class UniformWatch:
    """Warns once when :data:`PATIENCE` decisions in a row were uniform over more than two candidates.

    After a decision that was not uniform, the next :data:`PATIENCE` are not examined, so watching costs next to nothing;
    the warning comes after at most twice as many uniform decisions. A policy without any observation is not warned about:
    it has to be uniform.
    """

    def __init__(self) -> None:
        self.uniform, self.skip, self.warned = 0, 0, False

    def note(self, decision: Decision, policy: "SoftUCBPolicy") -> None:
        """Count one more decision of a policy."""
        if self.warned or torch.compiler.is_compiling():
            return
        if self.skip:
            self.skip -= 1
            return
        if not isinstance(decision, LazyDecision) and not values_readable(decision.probs):
            return
        if not is_uniform(decision):
            self.uniform, self.skip = 0, PATIENCE
            return
        self.uniform += 1
        if self.uniform >= PATIENCE:
            if not bool((policy.statistics[..., policy.layout.num_observations] > 0).any()):
                self.uniform, self.skip = 0, PATIENCE
                return
            self.warned = True
            means = decision.mu_hat.detach()
            spread = float((means.amax(-1) - means.amin(-1)).max())
            bonus = float((torch.as_tensor(decision.beta).detach().unsqueeze(-1) * decision.width.detach()).max())
            warnings.warn(
                f"the last {PATIENCE} decisions were uniform over more than 2 candidates: the exploration bonus is up to "
                f"{bonus:.3g}, the estimated means differ by {spread:.3g}, so no candidate is ruled out. "
                + policy.uniform_advice,
                UniformWarning,
                stacklevel=5,
            )
