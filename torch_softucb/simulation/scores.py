"""Quantities of a round that gradient estimators need: the terms of Eq. 13 and the scores of a trajectory."""

import torch
from torch import Tensor

from torch_softucb.functional.confidence import _coverage
from torch_softucb.functional.gradient import _reward_and_gradient
from torch_softucb.functional.objective import _sum_width
from torch_softucb.functional.score_function import _delta_slope, _logit_slope, _phi, _trajectory_score
from torch_softucb.functional.softmax import masked
from torch_softucb.policies._checks import check_offered
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.policies.decision import Decision
from torch_softucb.policies.soft_ucb import SoftUCBPolicy
from torch_softucb.simulation.trajectory import SCORES, GradientTerms


def gradient_terms(policy: BanditPolicy, decision: Decision) -> GradientTerms:
    """Return one round's terms of Eq. 13.

    Raises:
        TypeError: if the policy has no coldness, so that Eq. 13 does not apply.
    """
    gamma = check_offered("rollout", "gradient", decision.gamma, type(policy).__name__)
    value, slope = _reward_and_gradient(decision.probs, decision.mu_hat, decision.width, gamma)
    return GradientTerms(slope, _sum_width(decision.width, decision.mask), value)


def round_scores(
    policy: SoftUCBPolicy,
    decision: Decision,
    means: Tensor,  # (*B, K) true
    arm: Tensor,  # (*B,)
) -> Tensor:  # (11, *B)
    """Return one round's ``SCORES``, in that order."""
    assert decision.beta is not None
    assert decision.gamma is not None
    probs, mu_hat, width, mask = decision.probs, decision.mu_hat, decision.width, decision.mask
    index, delta, kappa = decision.index, policy.delta, policy.kappa
    phi = _phi(mu_hat, width, decision.beta, mask)
    slope = _logit_slope(width, phi, index, decision.gamma, delta=delta, smoothing=kappa, mask=mask)
    of_beta = _trajectory_score(probs, slope, means, arm)
    of_delta = _trajectory_score(probs, _delta_slope(index, delta=delta, smoothing=kappa, mask=mask), means, arm)
    best_arm = masked(means, mask).argmax(-1, keepdim=True)
    best_prob, best_index, best_width = (value.gather(-1, best_arm).squeeze(-1) for value in (probs, index, width))
    _, reward_slope = _reward_and_gradient(probs, mu_hat, width, decision.gamma)
    values = {
        "present": of_beta.present,
        "score": of_beta.score,
        "best_prob": best_prob,
        "best_index": best_index,
        "best_width": best_width,
        "mean_width": (probs * width).sum(-1),
        "coverage": _coverage(means, mu_hat, width, decision.beta, mask),
        "delta_present": of_delta.present,
        "delta_score": of_delta.score,
        "reward_slope": reward_slope,
        "sum_width": _sum_width(width, mask),
    }
    return torch.stack([values[name] for name in SCORES])


def check_has_scores(policy: BanditPolicy, scores: bool) -> None:
    """Raise if scores are requested of a policy whose probabilities have no derivative in beta."""
    coldness = getattr(policy, "coldness", "")
    if scores and coldness not in ("current", "smooth"):
        raise ValueError(
            "rollout: scores=True, the gradient of a trajectory, needs SoftUCBPolicy with coldness 'smooth' (or 'current', "
            f"biased), got {type(policy).__name__} {coldness}".rstrip()
        )
