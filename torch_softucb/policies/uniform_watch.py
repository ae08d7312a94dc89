"""Notice a policy that has stopped choosing: decisions that stay uniform over the candidates."""

import warnings
from typing import TYPE_CHECKING

import torch

from torch_softucb.errors import UniformWarning

if TYPE_CHECKING:
    from torch_softucb.policies.decision import Decision

PATIENCE = 100  # uniform decisions in a row before the warning
_NEARLY = 1.02  # a decision counts as uniform if no probability is above this multiple of 1 / K


def is_uniform(decision: "Decision") -> bool:
    """Return whether every request of a decision has more than two candidates and nearly equal probabilities."""
    probs = decision.probs.detach()
    mask = decision.mask
    allowed = probs.shape[-1] if mask is None else mask.sum(-1)
    most = probs.amax(-1) * allowed
    return bool(((most <= _NEARLY) & (torch.as_tensor(allowed) > 2)).all())


class UniformWatch:
    """Warns once when :data:`PATIENCE` decisions in a row were uniform over more than two candidates.

    After a decision that was not uniform, the next :data:`PATIENCE` are not examined, so watching costs next to nothing;
    the warning comes after at most twice as many uniform decisions.
    """

    def __init__(self) -> None:
        self.uniform, self.skip, self.warned = 0, 0, False

    def note(self, decision: "Decision", *, advice: str) -> None:
        """Count one more decision.

        Args:
            decision: the decision.
            advice: last sentence of the warning.
        """
        if self.warned or torch.compiler.is_compiling():
            return
        if self.skip:
            self.skip -= 1
            return
        if not is_uniform(decision):
            self.uniform, self.skip = 0, PATIENCE
            return
        self.uniform += 1
        if self.uniform >= PATIENCE:
            self.warned = True
            means = decision.mu_hat.detach()
            spread = float((means.amax(-1) - means.amin(-1)).max())
            bonus = float((torch.as_tensor(decision.beta).detach().unsqueeze(-1) * decision.width.detach()).max())
            warnings.warn(
                f"the last {PATIENCE} decisions were uniform over more than 2 candidates: the exploration bonus is up to "
                f"{bonus:.3g}, the estimated means differ by {spread:.3g}, so no candidate is ruled out. {advice}",
                UniformWarning,
                stacklevel=5,
            )
