"""A policy under random use, against the slow transcription of the paper."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests import reference
from tests.strategies import BETAS, DELTAS, SEEDS, Numbers
from torch_softucb import SoftUCBPolicy, load_policy, save_policy

D = torch.double
X = torch.ones(2, 3, dtype=D)
WRONG = {
    "nan": lambda policy: policy.update(X[0] * torch.nan, X[0, 0]),
    "shape": lambda policy: policy.update(X[0, :2], X[0, 0]),
    "mask": lambda policy: policy(X, mask=torch.zeros(2, dtype=torch.bool)),
    "dtype": lambda policy: policy(X.float()),
}


class Play(RuleBasedStateMachine):
    """Act, update, mask, forget, save, load and reset in any order."""

    @initialize(
        seed=SEEDS, mode=st.sampled_from(["current", "smooth", "lagged"]), beta=BETAS, delta=DELTAS, alpha=st.floats(0.1, 5)
    )
    def begin(self, seed, mode, beta, delta, alpha):
        self.numbers, self.alpha = Numbers(seed), alpha
        self.policy = SoftUCBPolicy(3, beta_init=beta, delta=delta, coldness=mode, ridge_alpha=alpha, dtype=D)
        self.slow = reference.Bandit(np.zeros((1, 3)), beta=beta, delta=delta, alpha=alpha, mode=mode)
        self.count = 0

    @rule(arms=st.integers(1, 6), masked=st.booleans(), grad=st.booleans(), discount=st.sampled_from([1.0, 1.0, 0.9]))
    def play(self, arms, masked, grad, discount):
        """One round on new arms."""
        x = self.numbers.normal(arms, 3)
        mask = self.numbers.mask(arms) if masked else None
        with torch.set_grad_enabled(grad):
            decision = self.policy(x, mask=mask)
        self.slow.arms, self.slow.allowed = x.numpy(), [True] * arms if mask is None else mask.tolist()
        self.slow.step()
        close = [abs(s) for s, ok in zip(self.slow.S, self.slow.allowed, strict=True) if ok and 0 < abs(s) < 1e-9]
        if not close:  # else rounding may put an arm on either side of L
            np.testing.assert_allclose(decision.mu_hat.detach(), self.slow.mu_hat, atol=1e-9)
            np.testing.assert_allclose(decision.width.detach(), self.slow.width, atol=1e-9)
            np.testing.assert_allclose(decision.index.detach(), self.slow.S, atol=1e-9)
            np.testing.assert_allclose(decision.probs.detach(), self.slow.probs, atol=1e-7)  # the coldness amplifies
        self.slow.gamma_before = float(decision.next_gamma)  # so that rounding does not accumulate
        arm, reward = int(decision.sample(self.numbers.generator)), self.numbers.normal()
        assert self.slow.allowed[arm]
        self.policy.update(x[arm], reward, decision=decision, discount=discount)
        self.slow.V = discount * self.slow.V + (1 - discount) * self.alpha * np.eye(3)
        self.slow.b = discount * self.slow.b
        self.slow.pull(arm, reward.item())
        self.count += 1

    @rule(wrong=st.sampled_from(sorted(WRONG)))
    def refuse(self, wrong):
        with pytest.raises((ValueError, TypeError)):
            WRONG[wrong](self.policy)

    @rule()
    def save_and_load(self):
        with tempfile.TemporaryDirectory() as folder:
            save_policy(Path(folder) / "policy.safetensors", self.policy)
            self.policy = load_policy(Path(folder) / "policy.safetensors")

    @rule()
    def move_the_state(self):
        other = SoftUCBPolicy(3, **self.policy.settings, beta_init=1.0)
        other.load_state_dict(self.policy.state_dict())
        self.policy = other

    @rule()
    def refresh(self):
        self.policy.refresh()

    @rule()
    def reset(self):
        self.policy.reset()
        self.slow.V, self.slow.b, self.slow.gamma_before, self.count = self.alpha * np.eye(3), np.zeros(3), 0.0, 0

    @invariant()
    def the_statistics_are_those_of_the_reference(self):
        if not hasattr(self, "policy"):
            return
        np.testing.assert_allclose(self.policy.state.V, self.slow.V, atol=1e-10)
        np.testing.assert_allclose(self.policy.state.b, self.slow.b, atol=1e-10)
        assert self.policy.state.num_observations == self.count
        assert self.policy.cache_error() < 1e-10


_LONG = settings.default.max_examples > 100
TestPlay = Play.TestCase
TestPlay.settings = settings(max_examples=200 if _LONG else 20, stateful_step_count=50 if _LONG else 20)
