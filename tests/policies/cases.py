"""All policies under a name: what the shared tests run over. A new policy adds a line here."""

import copy
import math
from dataclasses import dataclass
from functools import cache

import pytest
import torch

from torch_softucb import (
    EXP3,
    AutoSoftUCB,
    BootstrappedUCB,
    BootstrapThompson,
    EpsilonGreedy,
    GaussianPrior,
    LinGiro,
    LinPHE,
    LinTS,
    LinUCB,
    PhasedElimination,
    ScheduleBeta,
    SegmentBeta,
    SituationBeta,
    SoftElim,
    SoftUCBPolicy,
    SummaryBeta,
)

NUM_ARMS = 6
POLICIES = {  # need features only: any number of arms, any batch
    "soft_ucb": lambda dim, **policy_kwargs: SoftUCBPolicy(dim, beta_init=0.7, **policy_kwargs),
    "soft_ucb_lagged": lambda dim, **policy_kwargs: SoftUCBPolicy(dim, beta_init=0.7, coldness="lagged", **policy_kwargs),
    "soft_ucb_smooth": lambda dim, **policy_kwargs: SoftUCBPolicy(dim, beta_init=0.7, coldness="smooth", **policy_kwargs),
    "lin_ucb": lambda dim, **policy_kwargs: LinUCB(dim, beta=0.7, **policy_kwargs),
    "lin_ucb_horizon": lambda dim, **policy_kwargs: LinUCB.theoretical(
        dim, horizon=100, subgaussian_r=0.5, fail_prob=0.01, **policy_kwargs
    ),
    "lin_ucb_running": lambda dim, **policy_kwargs: LinUCB.theoretical(
        dim, subgaussian_r=0.5, fail_prob=0.01, **policy_kwargs
    ),
    "lin_ts": lambda dim, **policy_kwargs: LinTS(dim, scale=0.3, **policy_kwargs),
    "lin_ts_theoretical": lambda dim, **policy_kwargs: LinTS.theoretical(
        dim, subgaussian_r=0.5, fail_prob=0.01, **policy_kwargs
    ),
    "epsilon_greedy": lambda dim, **policy_kwargs: EpsilonGreedy(dim, epsilon=0.1, **policy_kwargs),
}
LEARNABLE = {  # a learnable rate, a learned delta, and beta as a module
    "soft_elim": lambda dim, **policy_kwargs: SoftElim(dim, rate_init=0.7, **policy_kwargs),
    "soft_ucb_learned_delta": lambda dim, **policy_kwargs: SoftUCBPolicy(
        dim, beta_init=0.7, delta=0.9, learn_delta=True, **policy_kwargs
    ),
    "soft_ucb_schedule": lambda dim, **policy_kwargs: SoftUCBPolicy(
        dim, beta_init=ScheduleBeta(60, init=torch.tensor([1.0, 0.3, 0.5])), **policy_kwargs
    ),
    "soft_ucb_situation": lambda dim, **policy_kwargs: SoftUCBPolicy(
        dim, beta_init=_bent(SituationBeta(horizon=60, init=0.7)), coldness="smooth", **policy_kwargs
    ),
    "soft_ucb_pretrained": lambda dim, **policy_kwargs: SoftUCBPolicy(
        dim, beta_init=SituationBeta.pretrained(horizon=50), coldness="smooth", **policy_kwargs
    ),
}
AUTO = {  # estimate the ridge weight and their units from the rewards
    "auto": lambda dim, **policy_kwargs: AutoSoftUCB(dim, beta_init=1.5, **policy_kwargs),
    "auto_summary": lambda dim, **policy_kwargs: AutoSoftUCB(
        dim, beta_init=_bent(SummaryBeta(horizon=60, init=1.2)), delta=0.99, **policy_kwargs
    ),
}
PER_BANDIT = {  # one beta per bandit: built for one batch shape
    "soft_ucb_tensor": lambda dim, batch, **policy_kwargs: SoftUCBPolicy(
        dim, beta_init=0.1 + torch.arange(torch.Size(batch).numel()).view(batch) / 4, **policy_kwargs
    ),
    "soft_ucb_segment": lambda dim, batch, **policy_kwargs: SoftUCBPolicy(
        dim, beta_init=_bent(SegmentBeta(torch.arange(torch.Size(batch).numel()).view(batch) % 3, init=0.6)), **policy_kwargs
    ),
}
MEMORY = {  # keep statistics per arm: a fixed number of arms, `update` needs the decision and the arm
    "exp3": lambda dim, num_arms, **policy_kwargs: EXP3(dim, num_arms, exploration=0.2, **policy_kwargs),
    "exp3_theoretical": lambda dim, num_arms, **policy_kwargs: EXP3.theoretical(dim, num_arms, horizon=99, **policy_kwargs),
    "phased": lambda dim, num_arms, **policy_kwargs: PhasedElimination(dim, num_arms, **policy_kwargs),
    "bootstrapped_ucb": lambda dim, num_arms, **policy_kwargs: BootstrappedUCB(dim, num_arms, **policy_kwargs),
    "bootstrap_thompson": lambda dim, num_arms, **policy_kwargs: BootstrapThompson(dim, num_arms, **policy_kwargs),
    "lin_phe": lambda dim, num_arms, **policy_kwargs: LinPHE(dim, num_arms, reward_low=-1.0, **policy_kwargs),
    "lin_giro": lambda dim, num_arms, **policy_kwargs: LinGiro(dim, num_arms, reward_low=-1.0, **policy_kwargs),
}
PRIOR = {  # every class with a prior, and the policy that it is made from
    f"{name}_prior": name
    for name in (
        *("soft_ucb", "lin_ucb", "lin_ts", "epsilon_greedy", "soft_elim", "soft_ucb_situation", "auto", "auto_summary"),
        *("exp3", "phased", "bootstrapped_ucb", "bootstrap_thompson", "lin_phe", "lin_giro"),
    )
}
ALL = (*POLICIES, *LEARNABLE, *AUTO, *PER_BANDIT, *MEMORY, *PRIOR)
SAMPLED = {"lin_ts", "lin_ts_theoretical", "bootstrap_thompson", "lin_phe", "lin_giro"}  # no probabilities in closed form
SAMPLED |= {name for name, base in PRIOR.items() if base in SAMPLED}
ONE_PER_CALL = {  # what the tests of several observations per bandit and call cannot use
    "soft_ucb_lagged": "lagged: one decision per bandit and round",
    **dict.fromkeys(MEMORY, "keeps statistics per arm: one decision per bandit and round"),
}
ONE_PER_CALL |= {name: ONE_PER_CALL[base] for name, base in PRIOR.items() if base in ONE_PER_CALL}


def prior_of(dim, *, seed=3, noise_std=0.6, offset=2.0):
    """A prior with a dense covariance."""
    g = torch.Generator().manual_seed(seed)
    root = torch.randn(dim, dim, generator=g, dtype=torch.double) / 3 + 0.5 * torch.eye(dim)
    mean = torch.randn(dim, generator=g, dtype=torch.double)
    return GaussianPrior(mean, root @ root.T, noise_std=noise_std, offset=offset)


def _bent(module):
    """The module with parameters off their initial values."""
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(i)))
    return module


def build(name, dim, *, batch=(), num_arms=NUM_ARMS, **policy_kwargs):
    """The policy of this name for a batch of bandits."""
    if name in PRIOR:
        policy_kwargs.pop("ridge_alpha", None)
        return build(PRIOR[name], dim, batch=batch, num_arms=num_arms, prior=prior_of(dim), **policy_kwargs)
    if name in AUTO:
        policy_kwargs.pop("ridge_alpha", None)  # it is estimated
    with torch.random.fork_rng():
        torch.manual_seed(0)  # a network begins with random weights
        if name in MEMORY:
            policy = MEMORY[name](dim, num_arms, **policy_kwargs)
        elif name in PER_BANDIT:
            policy = PER_BANDIT[name](dim, batch, **policy_kwargs)
        else:
            policy = {**POLICIES, **LEARNABLE, **AUTO}[name](dim, **policy_kwargs)
    policy.reset(batch_shape=batch)
    return policy


def play(policy, arms, rounds=5, seed=0, bandit=None):
    """Decide, draw, learn, with all that any policy needs; returns the next decision."""
    g = torch.Generator().manual_seed(seed)
    for _ in range(rounds):
        decision = policy(arms, bandit=bandit)
        arm = decision.sample(g)
        own = arms.expand(*arm.shape, *arms.shape[-2:])
        x = own.gather(-2, arm[..., None, None].expand(*arm.shape, 1, arms.shape[-1])).squeeze(-2)
        reward = torch.randn(arm.shape, generator=g, dtype=policy.dtype)
        policy.update(x, reward, decision=decision, arm=arm, bandit=bandit)
    return policy(arms, bandit=bandit)


def random_numbers(policy, seed=0):
    """Random numbers for `Decision.pick`, of a policy for one bandit or a batch."""
    g = torch.Generator().manual_seed(seed)
    if policy.normals_per_decision:
        shape = (*policy.batch_shape, policy.normals_per_decision)
        return torch.randn(shape, generator=g, dtype=policy.dtype)
    return torch.rand(policy.batch_shape, generator=g, dtype=policy.dtype)


def state_bytes(module):
    """Every value of a module, parameters and buffers, as bytes."""
    return {name: value.numpy(force=True).tobytes() for name, value in module.state_dict().items()}


@cache
def _played(case, rounds, **settings):
    policy = case.policy(**settings)
    play(policy, case.arms(), rounds=rounds)
    return policy


@dataclass(frozen=True)
class Case:
    """A policy with a dtype and a batch shape, and inputs that fit it."""

    name: str
    dtype: torch.dtype
    batch: tuple[int, ...]
    dim: int = 4

    @property
    def sampled(self):
        return self.name in SAMPLED

    @property
    def fixed_arms(self):
        return PRIOR.get(self.name, self.name) in MEMORY

    @property
    def tolerance(self):
        return 1e-10 if self.dtype == torch.float64 else 2e-5

    @property
    def num_bandits(self):
        return math.prod(self.batch)

    def policy(self, **settings):
        return build(self.name, self.dim, **({"dtype": self.dtype, "batch": self.batch} | settings))

    def played(self, rounds=4, **settings):
        return copy.deepcopy(_played(self, rounds, **settings))

    def randn(self, *shape, seed=0):
        return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double).to(self.dtype)

    def arms(self, *, own=False, seed=0, num_arms=NUM_ARMS):
        """Arms common to all bandits, or each bandit's own."""
        return self.randn(*(self.batch if own else ()), num_arms, self.dim, seed=seed)

    def observed(self, *more, seed=1):
        """Features and rewards, one observation per bandit or of shape ``more`` each."""
        return self.randn(*self.batch, *more, self.dim, seed=seed), self.randn(*self.batch, *more, seed=seed + 1)

    def decided(self, policy, seed=2):
        """What ``update`` needs besides features and rewards: a decision and the arms."""
        g = torch.Generator().manual_seed(seed)
        return {"decision": policy(self.arms()), "arm": torch.randint(NUM_ARMS, self.batch, generator=g)}

    def learn(self, policy, rounds=1, seed=1):
        for t in range(rounds):
            policy.update(*self.observed(seed=seed + 7 * t), **self.decided(policy))

    def skip_one_per_call(self):
        if self.name in ONE_PER_CALL:
            pytest.skip(ONE_PER_CALL[self.name])

    def skip_estimated_ridge(self):
        if self.name in AUTO:
            pytest.skip("its ridge weight is estimated from the rewards: tests/policies/test_auto.py")
        if self.name in PRIOR:
            pytest.skip("its prior replaces the ridge weight: tests/policies/test_prior.py")

    def skip_without_probs(self):
        if self.sampled:
            pytest.skip("its probabilities have no closed form")

    def skip_fixed_arms(self):
        if self.fixed_arms:
            pytest.skip("keeps statistics per arm: arms are known by their position")

    def same(self, a, b, tolerance=None, *, root=True):
        """Both decisions have the same numbers; those of sampled policies the same draw, if their roots are the same."""
        tolerance = self.tolerance if tolerance is None else tolerance
        for field in ("mu_hat", "width", "index"):
            torch.testing.assert_close(getattr(a, field), getattr(b, field), atol=tolerance, rtol=tolerance)
        if self.sampled and root:
            z = self.randn(*a.batch_shape, a.num_normals, seed=5)
            torch.testing.assert_close(a.draw(z), b.draw(z), atol=10 * tolerance, rtol=10 * tolerance)
        if not self.sampled:
            torch.testing.assert_close(a.probs, b.probs, atol=100 * tolerance, rtol=0)  # the coldness amplifies
