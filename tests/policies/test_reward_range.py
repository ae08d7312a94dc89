"""The reward range that EXP3, LinPHE and LinGiro share: defaults, settings, refusals, and what a shift does."""

import pytest
import torch

from torch_softucb import EXP3, LinGiro, LinPHE

RANGED = [EXP3, LinGiro, LinPHE]


@pytest.mark.parametrize("policy", RANGED)
def test_defaults_and_settings(policy):
    assert (policy(2, 3).reward_low, policy(2, 3).reward_high) == (0.0, 1.0)
    wide = policy(2, 3, reward_low=-1, reward_high=5.0, ridge_alpha=0.5)
    assert wide.settings["reward_low"] == -1.0
    assert wide.settings["reward_high"] == 5.0
    assert wide.settings["ridge_alpha"] == 0.5
    assert policy(2, **wide.settings).settings == wide.settings


@pytest.mark.parametrize("policy", RANGED)
@pytest.mark.parametrize("ends", [(1.0, 1.0), (2.0, 1.0), (float("-inf"), 1.0), (0.0, float("nan"))])
def test_an_empty_or_infinite_range_is_refused(policy, ends):
    with pytest.raises(ValueError, match=f"{policy.__name__}: reward_(low|high) must be in"):
        policy(2, 3, reward_low=ends[0], reward_high=ends[1])


@pytest.mark.parametrize("policy", RANGED)
def test_an_unknown_keyword_is_refused(policy):
    with pytest.raises(TypeError, match="unexpected keyword argument 'reward_middle'"):
        policy(2, 3, reward_middle=0.5)


def test_exp3_does_not_depend_on_where_the_range_is():
    probs = []
    for low, high in ((0.0, 1.0), (-3.0, 7.0)):
        policy = EXP3(2, 3, reward_low=low, reward_high=high, dtype=torch.double)
        for arm, share in ((0, 0.9), (1, 0.2), (0, 0.6)):
            decision = policy(torch.eye(3, 2, dtype=torch.double))
            reward = torch.tensor(low + share * (high - low), dtype=torch.double)
            policy.update(torch.ones(2, dtype=torch.double), reward, decision=decision, arm=torch.tensor(arm))
        probs.append(policy(torch.eye(3, 2, dtype=torch.double)).probs)
    torch.testing.assert_close(probs[0], probs[1], atol=1e-12, rtol=0)
