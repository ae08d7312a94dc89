"""Every wrong call: an error that names the argument, and a state that did not move by a bit."""

import math

import pytest
import torch

from torch_softucb import BanditProblem, EpsilonGreedy, LinTS, LinUCB, SoftUCBPolicy, rollout, synthetic_problem

X, R, ARMS = torch.ones(3, 2), torch.ones(3), torch.ones(5, 2)
NAN = torch.tensor([[1.0, math.nan], [1.0, 1.0], [1.0, 1.0]])
INF = torch.tensor([1.0, math.inf, 1.0])
IDS, LAST = torch.tensor([0, 1, 2]), torch.tensor([0, 2, -1])
META = torch.device("meta")

CALLS = {
    "NaN feature": (lambda p: p.update(NAN, R), ValueError, r"x must be finite, got 1 NaN .* at \(0, 1\)"),
    "infinite feature": (lambda p: p.update(NAN.nan_to_num(math.inf) / 0, R), ValueError, "x must be finite"),
    "infinite reward": (lambda p: p.update(X, INF), ValueError, "reward must be finite"),
    "x of other dim": (lambda p: p.update(torch.ones(3, 4), R), ValueError, r"x must have shape \(3, 2\)"),
    "x of other batch": (lambda p: p.update(torch.ones(4, 2), torch.ones(4)), ValueError, "x must have shape"),
    "x without dims": (lambda p: p.update(torch.tensor(1.0), R), ValueError, "x must have shape"),
    "reward of other shape": (lambda p: p.update(X, torch.ones(2)), ValueError, r"reward must have shape \(3,\)"),
    "x of other dtype": (lambda p: p.update(X.double(), R), TypeError, "x must have the policy's dtype torch.float32"),
    "whole-number reward": (lambda p: p.update(X, R.long()), TypeError, "reward must be a floating point tensor"),
    "x a list": (lambda p: p.update([[1.0, 1.0]] * 3, R), TypeError, "x must be a floating point tensor, got list"),
    "x elsewhere": (lambda p: p.update(X.to(META), R), ValueError, "x must be on cpu, got meta"),
    "reward elsewhere": (lambda p: p.update(X, R.to(META)), ValueError, "reward must be on cpu"),
    "unknown bandit": (
        lambda p: p.update(X, R, bandit=IDS + 1),
        ValueError,
        r"bandit ids must be in \[0, 3\), got 3 in row 2",
    ),
    "negative bandit": (lambda p: p.update(X, R, bandit=LAST), ValueError, "bandit ids must be in .* got -1 in row 2"),
    "bandit of floats": (lambda p: p.update(X, R, bandit=R), TypeError, "bandit must be an int64 tensor"),
    "bandit of other shape": (lambda p: p.update(X, R, bandit=IDS[:, None]), ValueError, "bandit must have shape"),
    "x against bandit": (lambda p: p.update(X, R, bandit=IDS[:2]), ValueError, r"x must have shape \(2, 2\)"),
    "NaN arms": (lambda p: p(ARMS * math.nan), ValueError, "arms must be finite"),
    "infinite arms": (lambda p: p(ARMS * math.inf), ValueError, "arms must be finite"),
    "arms of other dim": (lambda p: p(torch.ones(5, 3)), ValueError, r"arms must have shape \(K, 2\)"),
    "arms of other batch": (lambda p: p(torch.ones(4, 5, 2)), ValueError, "arms must have shape"),
    "no arms": (lambda p: p(torch.ones(0, 2)), ValueError, "arms must have shape"),
    "arms a vector": (lambda p: p(torch.ones(2)), ValueError, "arms must have shape"),
    "arms of other dtype": (lambda p: p(ARMS.double()), TypeError, "arms must have the policy's dtype"),
    "arms elsewhere": (lambda p: p(ARMS.to(META)), ValueError, "arms must be on cpu"),
    "unknown bandit asked": (lambda p: p(ARMS, bandit=IDS + 5), ValueError, "bandit ids must be in"),
    "all masked": (
        lambda p: p(ARMS, mask=torch.zeros(5, dtype=torch.bool)),
        ValueError,
        "mask must allow at least one",
    ),
    "mask of numbers": (lambda p: p(ARMS, mask=torch.ones(5)), TypeError, "mask must be a bool tensor"),
    "mask of other shape": (
        lambda p: p(ARMS, mask=torch.ones(4, dtype=torch.bool)),
        ValueError,
        "mask must have shape",
    ),
    "arm out of range": (lambda p: p(ARMS).log_prob(IDS + 5), ValueError, r"arm must be in \[0, 5\)"),
    "arm of floats": (lambda p: p(ARMS).log_prob(R), TypeError, "arm must be an int64 tensor"),
    "batch of size 0": (lambda p: p.reset(batch_shape=(0,)), ValueError, "batch_shape must be at least 1"),
}


@pytest.mark.parametrize("case", CALLS)
@pytest.mark.parametrize("make", [SoftUCBPolicy, LinUCB, EpsilonGreedy])
def test_wrong_call_changes_nothing(case, make):
    call, error, match = CALLS[case]
    policy = make(2)
    policy.reset(batch_shape=(3,))
    policy.update(torch.randn(3, 2), torch.randn(3))
    before = {k: v.clone() for k, v in policy.state_dict().items()}
    with pytest.raises(error, match=match):
        call(policy)
    after = policy.state_dict()
    assert before.keys() == after.keys()
    for key, value in before.items():
        assert value.numpy().tobytes() == after[key].numpy().tobytes()


def _problem(**kind):
    return synthetic_problem(**({"num_problems": 2, "num_arms": 3, "dim": 2} | kind))


def _three_betas_five_bandits():
    policy = SoftUCBPolicy(2, beta_init=torch.ones(3))
    policy.reset(batch_shape=(5,))
    policy(ARMS, bandit=IDS)


SETTINGS = {
    "dim 0": (lambda: SoftUCBPolicy(0), ValueError, "SoftUCBPolicy: dim must be at least 1"),
    "dim a float": (lambda: SoftUCBPolicy(2.0), TypeError, "dim must be a whole number"),
    "beta below 0": (lambda: SoftUCBPolicy(2, beta_init=-0.1), ValueError, "beta_init must be in"),
    "beta NaN": (lambda: SoftUCBPolicy(2, beta_init=math.nan), ValueError, "beta_init must be in"),
    "a beta below 0": (
        lambda: SoftUCBPolicy(2, beta_init=torch.tensor([1.0, -1.0])),
        ValueError,
        "beta_init must be at",
    ),
    "delta": (lambda: SoftUCBPolicy(2, delta=0.3), ValueError, r"delta must be in \[0.5, 1\), got 0.3"),
    "delta a text": (lambda: SoftUCBPolicy(2, delta="0.9"), TypeError, "delta must be a number"),
    "ridge_alpha": (lambda: SoftUCBPolicy(2, ridge_alpha=0.0), ValueError, "ridge_alpha must be in"),
    "coldness": (lambda: SoftUCBPolicy(2, coldness="warm"), ValueError, "coldness must be one of 'current', 'lagged'"),
    "smoothing": (lambda: SoftUCBPolicy(2, smoothing=0.0), ValueError, "smoothing must be in"),
    "dtype": (lambda: SoftUCBPolicy(2, dtype=torch.int64), TypeError, "dtype must be a floating point"),
    "refresh_every": (lambda: LinUCB(2, refresh_every=0), ValueError, "refresh_every must be at least 1"),
    "LinUCB beta": (lambda: LinUCB(2, beta=-1.0), ValueError, "LinUCB: beta must be in"),
    "LinTS scale": (lambda: LinTS(2, scale=math.inf), ValueError, "LinTS: scale must be in"),
    "epsilon": (lambda: EpsilonGreedy(2, epsilon=1.5), ValueError, r"epsilon must be in \[0, 1\], got 1.5"),
    "fail_prob": (lambda: LinUCB.theoretical(2, subgaussian_r=1.0, fail_prob=0.0), ValueError, "fail_prob must be in"),
    "num_arms": (lambda: _problem(num_arms=0), ValueError, "num_arms must be at least 1"),
    "noise_std": (lambda: _problem(noise_std=-1.0), ValueError, "noise_std must be in"),
    "means": (lambda: BanditProblem(ARMS, torch.ones(4)), ValueError, "arms must have shape"),
    "means NaN": (lambda: BanditProblem(ARMS, torch.full((5,), math.nan)), ValueError, "means must be finite"),
    "means dtype": (lambda: BanditProblem(ARMS, torch.ones(5).double()), TypeError, "means must have the arms' dtype"),
    "horizon": (lambda: rollout(LinUCB(2), _problem(), horizon=0), ValueError, "horizon must be at least 1"),
    "record": (lambda: rollout(LinUCB(2), _problem(), horizon=1, record=["x"]), ValueError, "record must be one of"),
    "gradient": (
        lambda: rollout(LinUCB(2), _problem(), horizon=1, gradient=True),
        TypeError,
        "gradient is not available for LinUCB",
    ),
    "other dim": (lambda: rollout(LinUCB(3), _problem(), horizon=1), ValueError, "policy has dim 3"),
    "other dtype": (lambda: rollout(LinUCB(2).double(), _problem(), horizon=1), TypeError, "policy has dtype"),
    "batch_shape": (lambda: LinUCB(2).reset(batch_shape=5), TypeError, "batch_shape must be a tuple"),
    "noise_std a text": (lambda: BanditProblem(ARMS, torch.ones(5), "a"), TypeError, "noise_std must be a number"),
    "ids a list": (lambda: BanditProblem(ARMS, torch.ones(5), ids=[1]), TypeError, "ids must be an int64 tensor"),
    "beta of other batch": (lambda: _three_betas_five_bandits(), ValueError, "beta has shape"),
    "coverage": (lambda: rollout(LinTS(2), _problem(), horizon=1, record=["coverage"]), TypeError, "coverage"),
    "probs of LinTS": (lambda: rollout(LinTS(2), _problem(), horizon=1, record=["probs"]), TypeError, "probs"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_wrong_setting(case):
    call, error, match = SETTINGS[case]
    with pytest.raises(error, match=match):
        call()


def test_bandit_needs_a_batch():
    with pytest.raises(ValueError, match="one batch dimension"):
        SoftUCBPolicy(2).update(X, R, bandit=IDS)
