"""Decisions that can be sampled but have no probabilities in closed form."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from torch_softucb.checks import values_readable
from torch_softucb.errors import NumericalError
from torch_softucb.functional.softmax import masked
from torch_softucb.policies._checks import check_slate
from torch_softucb.policies.decision import Decision, Estimate, Slate


@dataclass(frozen=True, eq=False)
class SampledDecision(Decision):
    """Decision of a policy that draws a random index and plays its best arm; ``probs`` is None.

    Attributes:
        draw: function from standard normal z ``(*B, n)`` to an index ``(*B, K)``.
        num_normals: n, standard normal numbers per draw.
        policy_name: class of the policy, for error messages.
    """

    draw: Callable[[Tensor], Tensor] = field(kw_only=True)  # (*B, n) -> (*B, K)
    num_normals: int = field(kw_only=True)
    policy_name: str = field(kw_only=True)

    def _normals(self, generator: torch.Generator | None) -> Tensor:  # (*B, n)
        like = self.index
        device = like.device if generator is None else generator.device
        shape = (*self.batch_shape, self.num_normals)
        return torch.randn(shape, generator=generator, dtype=like.dtype, device=device).to(like.device)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:  # (*B,) int64
        """Draw one arm per bandit or request."""
        return self.pick(self._normals(generator))

    def pick(self, noise: Tensor) -> Tensor:  # (*B, n) standard normal -> (*B,) int64
        """Return the arm that the given random numbers select; deterministic."""
        return self._drawn_index(noise).argmax(-1)

    def _drawn_index(self, noise: Tensor) -> Tensor:  # (*B, n) -> (*B, K), -inf at arms that are not allowed
        index = masked(self.draw(noise), self.mask)
        top = index.amax(-1)
        if values_readable(top) and not math.isfinite(top.sum().item()) and not bool(top.isfinite().all()):
            raise NumericalError(
                f"{self.policy_name}: the drawn index must be finite, got {int(index.isnan().sum())} NaN of "
                f"{index.numel()} values; the statistics or the random numbers are NaN or infinite"
            )
        return index

    def sample_topk(self, k: int, generator: torch.Generator | None = None) -> Slate:
        """Return the ``k`` best arms of one draw; their probabilities have no closed form."""
        return self.pick_topk(k, self._normals(generator))

    def pick_topk(self, k: int, noise: Tensor) -> Slate:  # (*B, n) standard normal
        """Return the slate that the given random numbers select; deterministic."""
        check_slate(f"{self.policy_name}.sample_topk", k, self.mask, self.num_arms)
        return Slate(self._drawn_index(noise).topk(k, dim=-1).indices, None)

    @property
    def log_probs(self) -> Tensor:
        """Not available.

        Raises:
            TypeError: always; use :meth:`sample`, or a policy whose decisions have ``probs``.
        """
        raise TypeError(
            f"{self.policy_name}: arm probabilities have no closed form; use decision.sample(), or a policy with probs"
        )

    def entropy(self) -> Tensor:
        """Not available; raises TypeError like :attr:`log_probs`."""
        return self.log_probs


def sampled_decision(
    policy_name: str, estimate: Estimate, mask: Tensor | None, draw: Callable[[Tensor], Tensor], *, num_normals: int
) -> SampledDecision:
    """Build a decision whose index is drawn by ``draw`` from ``num_normals`` standard normal numbers per bandit."""
    return SampledDecision(
        probs=None,  # type: ignore[arg-type]  # the one field that such a decision lacks
        index=estimate.mu_hat,
        mu_hat=estimate.reported_mean,
        width=estimate.width,
        mask=mask,
        draw=draw,
        num_normals=num_normals,
        policy_name=policy_name,
    )
