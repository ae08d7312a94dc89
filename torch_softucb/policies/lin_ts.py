"""Linear Thompson sampling: the best arm of a parameter vector drawn around theta_hat."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.checks import check_number
from torch_softucb.functional.softmax import masked
from torch_softucb.policies._checks import check_slate
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.decision import Decision, Estimate, NativeRule, Slate


@dataclass(frozen=True, eq=False)
class SampledDecision(Decision):
    """A decision whose probabilities have no closed form: it can be drawn, and only drawn."""

    draw: Callable[[Tensor], Tensor] | None = None  # standard normal z (*B, d) -> sampled index (*B, K)
    dim: int = 0  # random numbers that a draw takes
    name: str = "LinTS"

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        like = self.index
        device = like.device if generator is None else generator.device
        shape = (*self.batch_shape, self.dim)
        return self.pick(torch.randn(shape, generator=generator, dtype=like.dtype, device=device).to(like.device))

    def pick(self, noise: Tensor) -> Tensor:  # (*B, d) standard normal -> (*B,) int64
        assert self.draw is not None
        return masked(self.draw(noise), self.mask).argmax(-1)

    def sample_topk(self, k: int, generator: torch.Generator | None = None) -> Slate:
        """The ``k`` best arms of one draw; they have no probability in closed form."""
        like = self.index
        device = like.device if generator is None else generator.device
        noise = torch.randn((*self.batch_shape, self.dim), generator=generator, dtype=like.dtype, device=device)
        return self.pick_topk(k, noise.to(like.device))

    def pick_topk(self, k: int, noise: Tensor) -> Slate:  # (*B, d) standard normal
        assert self.draw is not None
        check_slate(f"{self.name}.sample_topk", k, self.mask, self.num_arms)
        return Slate(masked(self.draw(noise), self.mask).topk(k, dim=-1).indices, None)

    @property
    def log_probs(self) -> Tensor:
        raise TypeError(f"{self.name}: an arm's probability has no closed form; use decision.sample, or a policy with probs")

    def entropy(self) -> Tensor:
        return self.log_probs


class LinTS(BanditPolicy):
    """Draws theta ~ N(theta_hat, scale^2 V^-1) and plays its best arm.

    Args:
        dim: number of features d.
        scale: v, the posterior's scale. :meth:`theoretical` sets it as Agrawal & Goyal do instead.
        ridge_alpha: ridge weight alpha.

    ``decision.probs`` is None: the probability that an arm is the best of a draw has no closed form.

    S. Agrawal, N. Goyal: Thompson sampling for contextual bandits with linear payoffs, ICML 2013.

    Example:
        >>> policy = LinTS(2, scale=0.0)
        >>> policy.update(torch.tensor([0.0, 1.0]), torch.tensor(1.0))
        >>> policy(torch.eye(2)).sample()
        tensor(1)
    """

    def __init__(
        self,
        dim: int,
        *,
        scale: float = 1.0,
        ridge_alpha: float = 1.0,
        refresh_every: int = 1024,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(dim, ridge_alpha=ridge_alpha, refresh_every=refresh_every, device=device, dtype=dtype)
        self.scale = check_number("LinTS", "scale", scale, low=0.0)
        self.normals_per_decision = self.dim
        self._running: Callable[..., Tensor] | None = None

    @classmethod
    def theoretical(
        cls,
        dim: int,
        *,
        subgaussian_r: float,
        fail_prob: float,
        horizon: int | None = None,
        ridge_alpha: float = 1.0,
        refresh_every: int = 1024,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> "LinTS":
        """LinTS at Agrawal & Goyal's scale: with T when ``horizon`` is given, else with the running round t."""
        scale = partial(F.thompson_scale, dim=dim, subgaussian_r=subgaussian_r, fail_prob=fail_prob)
        value = scale(horizon=1 if horizon is None else horizon)
        policy = cls(dim, scale=value, ridge_alpha=ridge_alpha, refresh_every=refresh_every, device=device, dtype=dtype)
        policy._running = cast("Callable[..., Tensor]", scale) if horizon is None else None
        return policy

    def _v(self, num_observations: Tensor) -> Tensor:
        if self._running is None:
            return torch.full((), self.scale, dtype=num_observations.dtype, device=num_observations.device)
        return self._running(horizon=num_observations + 1)

    def native_rule(self, num_observations: Tensor) -> NativeRule:
        return NativeRule("thompson", self._v(num_observations.unsqueeze(-1)), by_round=self._running is not None)

    def decide(self, estimate: Estimate, *, mask: Tensor | None = None, bandit: Tensor | None = None) -> Decision:
        mu_hat, width, num_observations, _, perturb = estimate[:5]
        scale = self._v(num_observations.to(mu_hat.dtype)).unsqueeze(-1)

        def draw(z: Tensor) -> Tensor:
            return mu_hat + scale * perturb(z)

        return SampledDecision(None, mu_hat, mu_hat, width, mask, draw=draw, dim=self.dim)  # type: ignore[arg-type]
