"""Quantities of a round that a rollout can record."""

from collections.abc import Callable

from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.policies._checks import check_offered
from torch_softucb.policies.decision import Decision
from torch_softucb.simulation.trajectory import Round


def _coverage(decision: Decision, means: Tensor) -> Tensor | None:  # (*B,)
    if decision.beta is None:
        return None
    return F.coverage(means, decision.mu_hat, decision.width, decision.beta, mask=decision.mask)


def _beta(decision: Decision, _: Tensor) -> Tensor | None:  # (*B,)
    return None if decision.beta is None else decision.beta.expand(decision.batch_shape)


_FROM_DECISION: dict[str, Callable[[Decision, Tensor], Tensor | None]] = {
    "probs": lambda decision, _: decision.probs,
    "index": lambda decision, _: decision.index,
    "gamma": lambda decision, _: decision.gamma,
    "mu_hat": lambda decision, _: decision.mu_hat,
    "width": lambda decision, _: decision.width,
    "entropy": lambda decision, _: decision.entropy(),
    "num_suboptimal": lambda decision, _: F.num_suboptimal(decision.index, mask=decision.mask),
    "coverage": _coverage,
    "beta": _beta,
}
RECORDS = ("arm", "reward", *_FROM_DECISION)


def recorded_value(name: str, played: Round, means: Tensor, policy: str) -> Tensor:  # (*B,) or (*B, K)
    """Return a copy of one quantity of a recorded round.

    Args:
        name: one of ``RECORDS``.
        played: a round that carries its decision.
        means: true mean rewards of the round, ``(*B, K)``.
        policy: name of the policy's class, for the error message.

    Raises:
        TypeError: if the policy does not have this quantity.
    """
    if name in ("arm", "reward"):
        value = played.arm if name == "arm" else played.reward
    else:
        assert played.decision is not None
        value = _FROM_DECISION[name](played.decision, means)
    return check_offered("rollout", f"record {name!r}", value, policy).clone()
