"""Off-policy evaluation: literal sums, closed-form cases, gradients, and intervals that cover."""

import math

import numpy as np
import pytest
import torch

from torch_softucb import functional as F

D = torch.double


def _log(n, k, seeded):
    g = seeded(0)
    logging = torch.softmax(torch.randn(n, k, generator=g, dtype=D), -1)
    target = torch.softmax(2 * torch.randn(n, k, generator=g, dtype=D), -1)
    means = torch.rand(n, k, generator=g, dtype=D)
    arm = F.draw_arm(logging, torch.rand(n, generator=g, dtype=D))
    reward = means.gather(1, arm[:, None])[:, 0] + 0.1 * torch.randn(n, generator=g, dtype=D)
    propensity = logging.gather(1, arm[:, None])[:, 0]
    return reward, arm, propensity, target, means + 0.2


def _numpy(name, reward, arm, propensity, target, model, threshold=math.inf):
    """(value, standard error, effective sample size), a row at a time."""
    n = len(reward)
    w = [target[i][arm[i]] / propensity[i] for i in range(n)]
    dm = [sum(p * q for p, q in zip(target[i], model[i], strict=True)) for i in range(n)]
    if name == "dm":
        terms, w = dm, [1.0] * n
    elif name == "ips":
        terms = [w[i] * reward[i] for i in range(n)]
    elif name == "snips":
        value = sum(w[i] * reward[i] for i in range(n)) / sum(w)
        terms = [value + w[i] * (reward[i] - value) / (sum(w) / n) for i in range(n)]
    else:
        w = [v if v <= threshold else 0.0 for v in w]
        terms = [dm[i] + w[i] * (reward[i] - model[i][arm[i]]) for i in range(n)]
    value = sum(terms) / n
    error = math.sqrt(sum((t - value) ** 2 for t in terms) / (n - 1) / n)
    return value, error, sum(w) ** 2 / sum(v * v for v in w)


@pytest.mark.parametrize("name", ["dm", "ips", "snips", "dr", "switch"])
def test_estimators_are_the_literal_sums(name, seeded):
    log = _log(200, 4, seeded)
    reward, arm, propensity, target, model = log
    got = {
        "dm": lambda: F.direct_method(target, model),
        "ips": lambda: F.inverse_propensity(reward, arm, propensity, target),
        "snips": lambda: F.self_normalised(reward, arm, propensity, target),
        "dr": lambda: F.doubly_robust(*log),
        "switch": lambda: F.switch_doubly_robust(*log, threshold=1.5),
    }[name]()
    want = _numpy(name, *(column.tolist() for column in log), threshold=1.5 if name == "switch" else math.inf)
    np.testing.assert_allclose([got.value, got.std_error, got.effective_sample_size], want, atol=1e-10)
    half = 1.959963984540054 * want[1]
    np.testing.assert_allclose([got.low, got.high], [want[0] - half, want[0] + half], atol=1e-10)


def test_closed_forms(seeded):
    """The logging policy itself: weights are 1, and IPS, SNIPS and DR are the mean reward; a perfect model: DR is DM."""
    reward, arm, _, target, model = _log(300, 4, seeded)
    own = target.gather(1, arm[:, None])[:, 0]
    for value in (
        F.inverse_propensity(reward, arm, own, target),
        F.self_normalised(reward, arm, own, target),
        F.doubly_robust(reward, arm, own, target, torch.zeros_like(model)),
    ):
        assert value.value.item() == pytest.approx(reward.mean().item(), abs=1e-12)
        assert value.effective_sample_size.item() == pytest.approx(300)
    exact = model.gather(1, arm[:, None])[:, 0]
    assert F.doubly_robust(exact, arm, own, target, model).value == F.direct_method(target, model).value
    assert (
        F.switch_doubly_robust(reward, arm, own, target, model, threshold=0.0).value == F.direct_method(target, model).value
    )
    wide, narrow = F.direct_method(target, model, confidence=0.99), F.direct_method(target, model, confidence=0.5)
    assert wide.high > narrow.high


@pytest.mark.parametrize("name", ["inverse_propensity", "self_normalised", "doubly_robust"])
def test_gradients_in_the_target_policy(name, seeded):
    reward, arm, propensity, target, model = _log(12, 3, seeded)
    logits = target.log().requires_grad_()
    rest = (model,) if name == "doubly_robust" else ()
    assert torch.autograd.gradcheck(
        lambda z: getattr(F, name)(reward, arm, propensity, torch.softmax(z, -1), *rest).value, (logits,)
    )


def test_a_model_is_never_fitted_on_the_row_it_estimates(seeded):
    g = seeded(3)
    features = torch.randn(20, 4, 3, dtype=D, generator=g)
    arm, reward = torch.randint(4, (20,), generator=g), torch.randn(20, dtype=D, generator=g)
    got = F.cross_fitted_rewards(features, arm, reward, folds=5, ridge_alpha=0.5)
    changed = reward.clone()
    changed[7] += 10
    again = F.cross_fitted_rewards(features, arm, changed, folds=5, ridge_alpha=0.5)
    same = torch.arange(20) % 5 == 7 % 5
    assert again[same].equal(got[same])
    assert not again[~same].equal(got[~same])
    x = features[torch.arange(20), arm][~same]
    theta = torch.linalg.solve(x.T @ x + 0.5 * torch.eye(3, dtype=D), x.T @ reward[~same])
    torch.testing.assert_close(got[same], features[same] @ theta)


def test_bad_logs_are_named(seeded):
    reward, arm, propensity, target, model = _log(10, 3, seeded)
    propensity[4] = 0.0
    with pytest.raises(ValueError, match=r"propensity must be in \(0, 1\], got 0.0 in row 4"):
        F.doubly_robust(reward, arm, propensity, target, model)
    with pytest.raises(ValueError, match="reward must have shape"):
        F.inverse_propensity(reward[:3], arm, propensity, target)
    with pytest.raises(ValueError, match="reward_hat must be finite"):
        F.direct_method(target, model / 0)
    with pytest.raises(ValueError, match=r"arm must be in \[0, 3\)"):
        F.self_normalised(reward, arm + 3, propensity.clamp(min=0.1), target)


def test_no_overlap_and_wrong_settings_are_named(seeded):
    reward, arm, propensity, _, model = _log(10, 3, seeded)
    never = torch.nn.functional.one_hot((arm + 1) % 3, 3).double()
    for estimate in (F.inverse_propensity, F.self_normalised):
        with pytest.raises(ValueError, match="no logged action has a weight above 0"):
            estimate(reward, arm, propensity, never)
    assert F.doubly_robust(reward, arm, propensity, never, model).effective_sample_size == 0
    with pytest.raises(ValueError, match="target_probs must sum to 1 in every row, got 2 in row 0"):
        F.inverse_propensity(reward, arm, propensity, 2 * never)
    with pytest.raises(ValueError, match="switch_doubly_robust: threshold must be in"):
        F.switch_doubly_robust(reward, arm, propensity, never, model, threshold=-3.0)
    with pytest.raises(ValueError, match="folds must be"):
        F.cross_fitted_rewards(torch.zeros(10, 3, 2, dtype=D), arm, reward, folds=1)


def test_dr_intervals_cover_the_true_online_value(seeded):
    """500 simulated logs of 400 decisions by an epsilon-greedy policy, evaluated for a softmax policy that differs."""
    covered, shorter = 0, 0
    for log in range(500):
        g = seeded(log)
        n, k, d = 400, 6, 4
        features = torch.randn(n, k, d, dtype=D, generator=g)
        theta = torch.randn(d, dtype=D, generator=g) / 2
        means = (features @ theta).tanh()  # no linear model is right
        logging = torch.full((n, k), 0.3 / k, dtype=D)
        logging[torch.arange(n), features[..., 0].argmax(-1)] += 0.7
        target = torch.softmax(2 * features[..., 1], -1)
        arm = F.draw_arm(logging, torch.rand(n, dtype=D, generator=g))
        reward = means[torch.arange(n), arm] + 0.3 * torch.randn(n, dtype=D, generator=g)
        # the online value: mean over fresh requests
        fresh = torch.randn(4000, k, d, dtype=D, generator=g)
        online = (torch.softmax(2 * fresh[..., 1], -1) * (fresh @ theta).tanh()).sum(-1).mean()
        model = F.cross_fitted_rewards(features, arm, reward)
        got = F.doubly_robust(reward, arm, logging[torch.arange(n), arm], target, model)
        covered += bool(got.low <= online <= got.high)
        shorter += bool(got.std_error < F.inverse_propensity(reward, arm, logging[torch.arange(n), arm], target).std_error)
    print(f"DR's 95% interval covered the online value in {covered} of 500 logs; shorter than IPS's in {shorter}")
    assert covered >= 0.93 * 500
    assert shorter > 450
