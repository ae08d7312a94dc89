"""The T-round loop: a policy plays a batch of problems, all trajectories at once.

Arms stay fixed, so estimates are carried forward instead of solved for: with w = root^T x_a, u = root w = V^-1 x_a,
z = X u and s = 1 + |w|^2, a pull changes width^2 by -z^2 / s and mu_hat by z (y - mu_hat_a) / s. A round costs O(Kd + d^2).
Tensors are laid out with the batch innermost, (K, *B), and shown to the policy as (*B, K) views: every pass over arms
and every broadcast over the batch then runs over contiguous memory.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.checks import NumericalError, check_choice, check_integer, require
from torch_softucb.policies.base import BanditPolicy
from torch_softucb.streams import normals, stream_key, uniforms
from torch_softucb.types import BanditProblem, Decision, Estimate, GradientTerms, Trajectory

_BLOCK = 2**15  # random numbers drawn at once, per stream: they stay in the cache


def _coverage(decision: Decision, problem: BanditProblem) -> Tensor:
    require(decision.beta is not None, "rollout: record 'coverage' needs a policy with a beta (SoftUCBPolicy, LinUCB)", TypeError)
    assert decision.beta is not None
    inside = (problem.means - decision.mu_hat).abs() <= decision.beta.unsqueeze(-1) * decision.width
    if problem.mask is None:
        return inside.to(decision.width.dtype).mean(-1)
    return (inside & problem.mask).sum(-1) / problem.mask.expand(inside.shape).sum(-1)


_RECORDS: dict[str, Callable[[Decision, BanditProblem], Tensor | None]] = {
    "probs": lambda decision, _: decision.probs,
    "index": lambda decision, _: decision.index,
    "gamma": lambda decision, _: decision.gamma,
    "mu_hat": lambda decision, _: decision.mu_hat,
    "width": lambda decision, _: decision.width,
    "entropy": lambda decision, _: decision.entropy(),
    "num_suboptimal": lambda decision, problem: (
        (decision.index < 0) if problem.mask is None else (decision.index < 0) & problem.mask
    ).sum(-1),
    "coverage": _coverage,
}
RECORDS = ("arm", "reward", *_RECORDS)


class _FixedArms:
    """Estimates of every arm, carried forward pull by pull, batch innermost."""

    def __init__(self, problem: BanditProblem, ridge_alpha: float) -> None:
        like, batch, d = problem.means, problem.batch_shape, problem.dim
        self.shared = problem.shared_arms
        # (K, d) as it is, or (d, K, *B)
        self.arms = problem.arms if self.shared else problem.arms.permute(-1, -2, *range(len(batch))).contiguous()
        self.products = torch.empty_like(self.arms[:0] if self.shared else self.arms)  # written over in every round
        norm_sq = self.arms.square().sum(1 if self.shared else 0) / ridge_alpha
        self.width_sq = (norm_sq.view(-1, *[1] * len(batch)) if self.shared else norm_sq).expand(-1, *batch).contiguous()
        self.mu_hat = torch.zeros_like(self.width_sq)  # (K, *B)
        eye = torch.eye(d, dtype=like.dtype, device=like.device) / math.sqrt(ridge_alpha)
        self.root = eye.view(d, d, *[1] * len(batch)).repeat(1, 1, *batch)  # (d, d, *B)

    def project(self, u: Tensor) -> Tensor:  # (d, *B) -> x_i . u, (K, *B)
        if self.shared:
            return torch.tensordot(self.arms, u, dims=1)
        return torch.mul(self.arms, u.unsqueeze(1), out=self.products).sum(0)

    def features(self, arm: Tensor) -> Tensor:  # (*B,) -> (d, *B)
        if self.shared:
            return self.arms[arm].movedim(-1, 0)
        return self.arms.gather(1, arm.expand(self.arms.shape[0], 1, *arm.shape)).squeeze(1)

    def perturb(self, z: Tensor) -> Tensor:  # (*B, d) -> (*B, K)
        return self.project((self.root * z.movedim(-1, 0)).sum(1)).movedim(0, -1)

    def estimate(self, t: int, gamma: Tensor) -> Estimate:
        if not bool(self.width_sq.amin() >= 0):
            bad = ~(self.width_sq >= 0)
            raise NumericalError(
                f"rollout: width^2 is negative or NaN for {int(bad.sum())} of {bad.numel()} arms at round {t + 1}; "
                f"{self.width_sq.dtype} is too short for this horizon or these features: use float64"
            )
        count = torch.full((), t, dtype=gamma.dtype, device=gamma.device)
        return Estimate(self.mu_hat.movedim(0, -1), self.width_sq.sqrt().movedim(0, -1), count, gamma, self.perturb)

    def pull(self, arm: Tensor, reward: Tensor) -> None:
        x = self.features(arm)
        w = (self.root * x.unsqueeze(1)).sum(0)  # root^T x
        u = (self.root * w).sum(1)  # V^-1 x
        z = self.project(u)
        s = 1 + w.square().sum(0)
        residual = reward - self.mu_hat.gather(0, arm.unsqueeze(0)).squeeze(0)
        self.mu_hat.addcmul_(z, residual / s)
        self.width_sq.addcmul_(z, z / -s)
        self.root.addcmul_(u.unsqueeze(1), w / (s + s.sqrt()), value=-1)  # functional.ridge_root_update


@torch.no_grad()
def rollout(
    policy: BanditPolicy,
    problem: BanditProblem,
    *,
    horizon: int,
    generator: torch.Generator | None = None,
    noise_generator: torch.Generator | None = None,
    gradient: bool = False,
    record: Sequence[str] = (),
    progress: Callable[[int, int], object] | None = None,
) -> Trajectory:
    """Play ``horizon`` rounds of every problem from fresh statistics; the policy's own are neither read nor changed.

    Args:
        policy: any policy; its beta is shared by all trajectories or has the problem's batch shape.
        problem: one problem or a batch; each is a trajectory of its own.
        generator: of the action draws, and of the reward noise when ``noise_generator`` is not given. One key is taken
            from it for each of the two; the n-th number of a trajectory depends on the key and on ``problem.ids`` alone.
            Policies that start from equal generators meet the same noise.
        noise_generator: of the reward noise.
        gradient: also sum the terms of Eq. 13 (SoftUCBPolicy only), in closed form: no graph is built.
        record: what else to keep of every round, of ``arm``, ``reward``, ``probs``, ``index``, ``gamma``, ``mu_hat``,
            ``width``, ``entropy``, ``num_suboptimal``, ``coverage``. Without it memory is O(B K), and T numbers of regret.
        progress: called with (rounds done, horizon) after every round.

    Example:
        >>> from torch_softucb import SoftUCBPolicy, synthetic_problem
        >>> seeded = lambda seed: torch.Generator().manual_seed(seed)
        >>> problem = synthetic_problem(num_problems=64, generator=seeded(0))
        >>> trajectory = rollout(SoftUCBPolicy(10, beta_init=0.6), problem, horizon=200, generator=seeded(1))
        >>> trajectory.regret.shape
        torch.Size([200, 64])
        >>> bool(trajectory.regret[-50:].mean() < 0.5 * trajectory.regret[:50].mean())
        True
    """
    horizon = check_integer("rollout", "horizon", horizon, low=1)
    for name in record:
        check_choice("rollout", "record", name, RECORDS)
    _check_fit(policy, problem)
    like, batch, ids = problem.means, problem.batch_shape, problem.ids
    noise_key = stream_key(generator if noise_generator is None else noise_generator, like.device)
    action_key = stream_key(generator, like.device)
    arms = _FixedArms(problem, policy.ridge_alpha)
    means = problem.means.movedim(-1, 0).contiguous()  # (K, *B)
    best = problem.best_mean
    noise_std = torch.as_tensor(problem.noise_std, dtype=like.dtype, device=like.device)
    gamma = like.new_zeros(batch)
    reward_part, penalty_part = like.new_zeros(batch), like.new_zeros(batch)
    regret = like.new_empty((horizon, *batch))
    kept: dict[str, list[Tensor]] = {name: [] for name in record}

    block = max(1, _BLOCK // max(1, ids.numel() * max(1, policy.normals_per_decision)))
    for start in range(0, horizon, block):
        rounds = min(block, horizon - start)
        eps = normals(noise_key, ids, start=start, count=rounds, dtype=like.dtype) * noise_std  # (rounds, *B)
        draws = _action_draws(policy, action_key, ids, start, rounds, like.dtype)
        for t in range(start, start + rounds):
            decision = policy.decide(arms.estimate(t, gamma), mask=problem.mask)
            arm = decision.pick(draws[t - start])
            mean = means.gather(0, arm.unsqueeze(0)).squeeze(0)
            reward = mean + eps[t - start]
            if decision.probs is None:
                regret[t] = best - mean  # unbiased: the arm was drawn from the policy
            else:
                regret[t] = best - (decision.probs.movedim(-1, 0) * means).sum(0)  # Eq. 2
            if gradient:
                _check_gradient(policy, decision)
                assert decision.gamma is not None
                reward_part += F.reward_gradient(decision.probs, decision.mu_hat, decision.width, decision.gamma)
                penalty_part += F.sum_width(decision.width, mask=problem.mask)
            for name in record:
                kept[name].append(_record(name, arm, reward, decision, problem))
            if decision.next_gamma is not None:
                gamma = decision.next_gamma
            arms.pull(arm, reward)
            if progress is not None:
                progress(t + 1, horizon)
    terms = GradientTerms(reward_part / horizon, penalty_part / horizon) if gradient else None
    return Trajectory(regret, terms, {name: torch.stack(values) for name, values in kept.items()})


def _check_fit(policy: BanditPolicy, problem: BanditProblem) -> None:
    require(policy.dim == problem.dim, f"rollout: policy has dim {policy.dim}, problem has {problem.dim} features")
    require(
        policy.dtype == problem.means.dtype,
        f"rollout: policy has dtype {policy.dtype}, problem {problem.means.dtype}; use policy.to({problem.means.dtype})",
        TypeError,
    )
    require(
        policy.device == problem.means.device,
        f"rollout: policy is on {policy.device}, problem on {problem.means.device}; use policy.to({str(problem.means.device)!r})",
    )


def _check_gradient(policy: BanditPolicy, decision: Decision) -> None:
    name = type(policy).__name__
    require(decision.gamma is not None, f"rollout: gradient needs a softmax policy (SoftUCBPolicy), got {name}", TypeError)


def _action_draws(policy: BanditPolicy, key: Tensor, ids: Tensor, start: int, rounds: int, dtype: torch.dtype) -> Tensor:
    width = policy.normals_per_decision
    if not width:
        return uniforms(key, ids, start=start, count=rounds, dtype=dtype)  # (rounds, *B)
    numbers = normals(key, ids, start=start * width, count=rounds * width, dtype=dtype)
    return numbers.unflatten(0, (rounds, width)).movedim(1, -1)  # (rounds, *B, d)


def _record(name: str, arm: Tensor, reward: Tensor, decision: Decision, problem: BanditProblem) -> Tensor:
    if name == "arm":
        return arm
    if name == "reward":
        return reward
    value = _RECORDS[name](decision, problem)
    require(value is not None, f"rollout: record {name!r} is not there for this policy", TypeError)
    assert value is not None
    return value.clone()
