"""SoftUCB (Algorithm 1): softmax over the UCB index, with a confidence width that can be learned."""

from typing import TYPE_CHECKING, ClassVar, Self, Unpack

import torch
from torch import Tensor

from torch_softucb.checks import check_choice, check_number
from torch_softucb.functional.index import _soft_ucb_index
from torch_softucb.functional.softmax import _coldness, _smooth_coldness, _softmax, max_index
from torch_softucb.policies._checks import check_decision, check_flag
from torch_softucb.policies.beta.base import BetaModule
from torch_softucb.policies.beta.network import PRETRAINED, SituationBeta
from torch_softucb.policies.decision import Decision, Estimate, NativeRule
from torch_softucb.policies.prior import GaussianPrior
from torch_softucb.policies.single_requests import SingleRequests
from torch_softucb.policies.statistics import PolicyKwargs
from torch_softucb.policies.uniform_watch import UniformWatch

if TYPE_CHECKING:
    from torch_softucb.policies.auto import AutoSoftUCB

COLDNESS_MODES = ("current", "lagged", "smooth")


class SoftUCBPolicy(SingleRequests):
    """Softmax policy over the index S (Eqs. 6-9) with a learnable confidence width beta.

    Args:
        dim: number of features d.
        beta_init: initial beta: a number >= 0, or a tensor with one value per bandit; default 1 (D8). Or a
            :class:`~torch_softucb.BetaModule` that computes beta in each decision: one beta per segment, a schedule over
            t / T, or a small network over the situation. The module becomes a submodule of the policy and is converted to
            the policy's dtype and device; policies that share a module must agree in both.
        delta: delta of Eq. 9, in [0.5, 1): suboptimal arms together get less than 1 - delta of the probability (D2).
        learn_delta: make delta a parameter too, through its logit; it stays between 0.5 and 0.9999992.
        coldness: ``current`` (gamma_t from S_t, Eq. 8), ``lagged`` (gamma_{t-1}, exactly as in Algorithm 1) or ``smooth``
            (continuous in beta), departure D6.
        smoothing: kappa of ``smooth``.
        differentiate_gamma: let gradients flow through gamma too. By default it is held constant, as in Eq. 13 (D3).
        **policy_kwargs: ``ridge_alpha``, ``refresh_every``, ``prior``, ``device``, ``dtype``, as in
            :class:`~torch_softucb.BanditPolicy`.

    Example:
        >>> policy = SoftUCBPolicy(dim=2)
        >>> decision = policy(torch.eye(2))
        >>> decision.probs  # no observations yet
        tensor([0.5000, 0.5000], grad_fn=<SoftmaxBackward0>)
        >>> for _ in range(50):
        ...     policy.update(torch.eye(2), torch.tensor([1.0, 0.0]))
        >>> policy(torch.eye(2)).probs[0] > 0.99
        tensor(True)
    """

    own_settings: ClassVar[tuple[str, ...]] = ("coldness", "smoothing", "differentiate_gamma")

    def __init__(
        self,
        dim: int,
        *,
        beta_init: float | Tensor | BetaModule = 1.0,
        delta: float = 0.99,
        learn_delta: bool = False,
        coldness: str = "current",
        smoothing: float = 0.1,
        differentiate_gamma: bool = False,
        **policy_kwargs: Unpack[PolicyKwargs],
    ) -> None:
        super().__init__(dim, beta_init=beta_init, delta=delta, learn_delta=learn_delta, **policy_kwargs)
        check_choice("SoftUCBPolicy", "coldness", coldness, COLDNESS_MODES)
        self.coldness = coldness
        self.smoothing = check_number("SoftUCBPolicy", "smoothing", smoothing, low=0.0, open_low=True)
        self.differentiate_gamma = check_flag("SoftUCBPolicy", "differentiate_gamma", differentiate_gamma)
        self.watch = UniformWatch()

    @classmethod
    def pretrained(
        cls,
        dim: int,
        *,
        horizon: int = 1024,
        prior: GaussianPrior | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> Self:
        """Build a policy that needs no tuning.

        Its beta comes from a network that was trained on problems of many sizes, and delta was learned with it. It expects
        features of length about 1 and rewards of size about 1; the noise level is estimated as rewards arrive.

        Args:
            dim: number of features d.
            horizon: approximate number of decisions T; t / T is an input of the network.
            prior: prior of every bandit.
            device: device of statistics and parameters.
            dtype: dtype of arms, rewards and decisions.

        Example:
            >>> policy = SoftUCBPolicy.pretrained(10, horizon=500)
            >>> bool(policy(torch.eye(10)).beta > 0)
            True
        """
        module, about = SituationBeta.load(PRETRAINED, horizon=horizon)
        delta = float(about["delta"])
        return cls(dim, beta_init=module, delta=delta, coldness="smooth", prior=prior, device=device, dtype=dtype)

    @classmethod
    def auto(
        cls,
        dim: int,
        *,
        horizon: int | None = None,
        beta_init: "float | Tensor | BetaModule | None" = None,
        pooled: bool = False,
        prior: GaussianPrior | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> "AutoSoftUCB":
        """Build a policy without a number to choose: it finds the unit of the rewards and features by itself.

        Offset, noise and prior scale are estimated as rewards arrive, and beta is in units of the noise.

        Args:
            dim: number of features d.
            horizon: number of decisions per bandit T, if it is known.
            beta_init: beta in units of the noise: a number, a tensor with one value per bandit or a
                :class:`~torch_softucb.BetaModule`; by default the one that comes with the package.
            pooled: estimate one set of scales for all bandits of a batch, such as the users of one product.
            prior: prior of every bandit; offset, noise and the distribution of theta are then known, not estimated.
            device: device of statistics and parameters.
            dtype: dtype of arms, rewards and decisions.

        Example:
            >>> policy = SoftUCBPolicy.auto(dim=2)
            >>> for stars in ([5.0, 3.0], [4.0, 2.0]) * 20:
            ...     policy.update(torch.eye(2), torch.tensor(stars))
            >>> policy(torch.eye(2)).probs.argmax()
            tensor(0)
            >>> policy.offset is not None
            True
        """
        from torch_softucb.policies.auto import AutoSoftUCB, default_beta

        beta, delta = default_beta(horizon)
        shared = None if check_flag("SoftUCBPolicy.auto", "pooled", pooled) else 1
        beta = beta if beta_init is None else beta_init
        return AutoSoftUCB(dim, beta_init=beta, delta=delta, rows_per_group=shared, prior=prior, device=device, dtype=dtype)

    @property
    def carries_gamma(self) -> bool:
        """Whether ``update`` needs the decision, because the next round uses its coldness."""
        return self.coldness == "lagged"

    uniform_advice: ClassVar[str] = (
        "If rewards or features are not of size about 1, beta is in the wrong unit: use SoftUCBPolicy.auto, which finds the "
        "unit by itself, or a smaller beta."
    )

    def forward(
        self,
        arms: Tensor,  # (K, d) or (*B, K, d)
        *,
        mask: Tensor | None = None,  # (K,) or (*B, K)
        bandit: Tensor | None = None,  # (N,)
        pending: Tensor | None = None,  # (d, d) or (*B, d, d)
    ) -> Decision:
        """Decide, as :meth:`BanditPolicy.forward` does; warn once if 100 decisions in a row were uniform."""
        decision = super().forward(arms, mask=mask, bandit=bandit, pending=pending)
        self.watch.note(decision, self)
        return decision

    def decide(self, estimate: Estimate, *, mask: Tensor | None = None, bandit: Tensor | None = None) -> Decision:
        """Softmax over the index S (Eqs. 6-9)."""
        beta, situation = self.situated_beta(estimate, mask=mask, bandit=bandit)
        index = _soft_ucb_index(estimate.mu_hat, estimate.width, beta, mask)
        source = index.detach() if index.requires_grad and not self.differentiate_gamma else index  # D3
        s_max = max_index(source, mask)
        if self.coldness == "smooth":
            fresh = _smooth_coldness(source, self.delta, self.smoothing, mask, s_max)
        else:
            fresh = _coldness(source, self.delta, mask, s_max)
        gamma = estimate.gamma.to(fresh.dtype).expand(fresh.shape) if self.coldness == "lagged" else fresh  # D6
        peak = gamma * s_max
        check_decision(type(self).__name__, beta, gamma, s_max, peak)
        return Decision(
            probs=_softmax(gamma.unsqueeze(-1) * index, mask, top=peak),  # Eq. 8; gamma is never below 0
            index=index,
            mu_hat=estimate.reported_mean,
            width=estimate.width,
            mask=mask,
            beta=beta,
            gamma=gamma,
            next_gamma=fresh,
            situation=situation,
        )

    def native_rule(self, num_observations: Tensor) -> NativeRule:  # (n,)
        """Return the decision rule for the native kernel."""
        by_round = False
        if self.beta_module is None:
            beta = self.beta.detach()
        elif self.needs_estimate:
            beta = num_observations.new_zeros(())  # the kernel gets it from situated_beta, round by round
        else:
            with torch.no_grad():
                by_round = bool(self.beta_module.inputs)
                beta = self.beta_module(num_observations.unsqueeze(-1)[:, : len(self.beta_module.inputs)])
                if by_round:
                    beta = beta.expand(len(num_observations)).unsqueeze(-1)  # (n, 1)
        delta = float(self.delta)
        odds = delta / (1 - delta)
        return NativeRule(f"soft_{self.coldness}", beta, odds=odds, smoothing=self.smoothing, by_round=by_round)

    def _next_gamma(self, decision: Decision | None, old: Tensor) -> Tensor:  # (*B,) -> (*B,)
        if not self.carries_gamma:
            return old
        gamma = None if decision is None else decision.next_gamma
        if gamma is None:
            raise ValueError(
                "SoftUCBPolicy.update: coldness='lagged' carries gamma_t to the next round; pass decision=, the one that "
                "chose x"
            )
        if gamma.shape != old.shape:
            raise ValueError(
                "SoftUCBPolicy.update: coldness='lagged' carries one gamma per bandit, got a decision of shape "
                f"{tuple(gamma.shape)} for an update of {tuple(old.shape)} bandits; use 'current' or 'smooth' for several "
                "requests or repeated ids"
            )
        return gamma.to(torch.float64)

    @torch.no_grad()
    def extra_repr(self) -> str:
        """Sizes, beta, delta and coldness, for ``repr``."""
        if self.beta_module is not None:
            beta = "module"
        else:
            shape = tuple(self.raw_beta.shape)
            readable = not shape and not self.raw_beta.is_meta
            beta = f"{self.beta.item():.4g}" if readable else f"tensor{shape}"
        sizes = f"dim={self.dim}, ridge_alpha={self.ridge_alpha}, batch_shape={tuple(self.batch_shape)}"
        sizes += "" if self.prior is None else f", prior={self.prior}"
        return f"{sizes}, beta={beta}, delta={float(self.delta):.4g}, coldness={self.coldness!r}"
