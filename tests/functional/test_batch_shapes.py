"""A batch is a stack of singles: every formula on two batch dims equals the same formula bandit by bandit."""

import pytest
import torch

from torch_softucb import functional as F

D = torch.double
BATCH, K, DIM = (2, 3), 5, 3

FORMULAS = {
    "soft_ucb_index": lambda v: F.soft_ucb_index(v["mu_hat"], v["width"], v["beta"], mask=v["mask"]),
    "coldness": lambda v: F.coldness(v["index"], 0.9, mask=v["mask"]),
    "smooth_coldness": lambda v: F.smooth_coldness(v["index"], 0.9, mask=v["mask"]),
    "arm_probabilities": lambda v: F.arm_probabilities(v["index"], v["gamma"], mask=v["mask"]),
    "greedy_probabilities": lambda v: F.greedy_probabilities(v["index"].round(), mask=v["mask"]),
    "coverage": lambda v: F.coverage(v["means"], v["mu_hat"], v["width"], v["beta"], mask=v["mask"]),
    "num_suboptimal": lambda v: F.num_suboptimal(v["index"], mask=v["mask"]),
    "expected_regret": lambda v: F.expected_regret(v["probs"], v["means"], mask=v["mask"]),
    "expected_reward": lambda v: F.expected_reward(v["beta"], v["mu_hat"], v["width"], v["gamma"], mask=v["mask"]),
    "reward_and_gradient": lambda v: F.reward_and_gradient(v["probs"], v["mu_hat"], v["width"], v["gamma"]),
    "logit_slope": lambda v: _slope(v, None),
    "smooth logit_slope": lambda v: _slope(v, 0.2),
    "delta_slope": lambda v: F.delta_slope(v["index"], delta=0.9, smoothing=None, mask=v["mask"]),
    "smooth delta_slope": lambda v: F.delta_slope(v["index"], delta=0.9, smoothing=0.2, mask=v["mask"]),
    "trajectory_score": lambda v: F.trajectory_score(v["probs"], v["index"], v["means"], v["arm"]),
    "draw_arm": lambda v: F.draw_arm(v["probs"], v["uniform"][..., 0]),
    "draw_slate": lambda v: F.draw_slate(v["probs"].log(), v["index"], v["uniform"], k=2, mask=v["mask"]),
    "slate_log_prob": lambda v: F.slate_log_prob(v["probs"].log(), v["slate"]),
    "ridge_root": lambda v: F.ridge_root(v["V"]),
    "ridge_root_update": lambda v: F.ridge_root_update(v["root"], v["b"]),
    "ridge_cache_error": lambda v: F.ridge_cache_error(v["V"], v["root"].roll(1, -1)),
    "ridge_estimate": lambda v: F.ridge_estimate(v["arms"], v["root"], v["b"]),
    "residual_sum": lambda v: F.residual_sum(100 + v["beta"], v["root"], v["b"]),
    "reward_sums": lambda v: F.reward_sums(v["means"]),
    "log_noise": lambda v: F.log_noise(v["beta"], v["gamma"]),
    "add_residuals": lambda v: F.add_residuals(F.Residuals(v["beta"], v["gamma"]), v["mu_hat"], v["width"], v["means"]),
    "online_dual_step": lambda v: F.online_dual_step(v["beta"], v["gamma"], -v["beta"], v["gamma"], v["beta"], target=0.8),
    "g_optimal_design": lambda v: F.g_optimal_design(v["arms"], mask=v["mask"], tolerance=1e-6),
}


def _slope(v, smoothing):
    settings = {"delta": 0.9, "smoothing": smoothing, "mask": v["mask"]}
    return F.logit_slope(v["mu_hat"], v["width"], v["beta"], v["index"], v["gamma"], **settings)


def _values(seeded, with_mask):
    g = seeded(0)
    mu_hat, means, noise = torch.randn(3, *BATCH, K, dtype=D, generator=g)
    width, uniform = torch.rand(2, *BATCH, K, dtype=D, generator=g)
    beta, gamma = torch.rand(2, *BATCH, dtype=D, generator=g) + 0.1
    arms = torch.randn(*BATCH, K, DIM, dtype=D, generator=g)
    mask = torch.rand(*BATCH, K, generator=g) > 0.4
    mask[..., :2] = True
    V = torch.eye(DIM, dtype=D) + arms.mT @ arms
    probs = F.arm_probabilities(noise, gamma, mask=mask)
    values = {"mu_hat": mu_hat, "means": means, "width": width, "uniform": uniform, "beta": beta, "gamma": gamma}
    values |= {"arms": arms, "V": V, "root": F.ridge_root(V), "b": arms[..., 0, :], "probs": probs, "index": mu_hat}
    arm = torch.randint(K, BATCH, generator=g)
    slate = torch.stack((torch.zeros_like(arm), torch.ones_like(arm)), dim=-1)
    return values | {"arm": arm, "slate": slate, "mask": mask if with_mask else None}


def _leaves(result):
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("with_mask", [False, True], ids=["no mask", "mask"])
@pytest.mark.parametrize("name", FORMULAS)
def test_a_batch_is_a_stack_of_singles(name, with_mask, seeded):
    values = _values(seeded, with_mask)
    whole = _leaves(FORMULAS[name](values))
    for i in range(BATCH[0]):
        for j in range(BATCH[1]):
            single = {key: None if value is None else value[i, j] for key, value in values.items()}
            for got, want in zip(whole, _leaves(FORMULAS[name](single)), strict=True):
                tolerance = 1e-4 if name == "g_optimal_design" else 1e-10  # a batch stops when its last member is done
                torch.testing.assert_close(got[i, j], want, atol=tolerance, rtol=0)


def test_bayesian_ridge_shares_scales_but_not_thetas(seeded):
    g = seeded(1)
    x = torch.randn(*BATCH, 20, DIM, dtype=D, generator=g)
    y = x.sum(-1) + 0.3 * torch.randn(*BATCH, 20, dtype=D, generator=g)
    sums = x.mT @ x, (x.mT @ y.unsqueeze(-1)).squeeze(-1), y.square().sum(-1), torch.full(BATCH, 20)
    whole, flat = F.bayesian_ridge(*sums), F.bayesian_ridge(*(value.flatten(0, 1) for value in sums))
    torch.testing.assert_close(whole.mean.flatten(0, 1), flat.mean, atol=1e-10, rtol=0)
    torch.testing.assert_close(whole.noise_std, flat.noise_std, atol=1e-10, rtol=0)
    precision = sums[0] / whole.noise_std**2 + torch.eye(DIM, dtype=D) / whole.prior_std**2
    torch.testing.assert_close(whole.root @ whole.root.mT, torch.linalg.inv(precision), atol=1e-10, rtol=0)


BAD = {
    "coverage: width": lambda: F.coverage(torch.rand(3), torch.rand(3), torch.rand(4), torch.rand(())),
    "coverage: beta": lambda: F.coverage(torch.rand(3), torch.rand(3), torch.rand(3), torch.rand(2)),
    "num_suboptimal: index": lambda: F.num_suboptimal(torch.rand(())),
    "greedy_probabilities: mask": lambda: F.greedy_probabilities(torch.rand(3), mask=torch.ones(2).bool()),
    "draw_arm: uniform": lambda: F.draw_arm(torch.rand(2, 3), torch.rand(())),
    "draw_slate: uniform": lambda: F.draw_slate(torch.rand(2, 3), torch.rand(2, 3), torch.rand(2), k=1),
    "slate_log_prob: slate": lambda: F.slate_log_prob(torch.rand(2, 3), torch.zeros(3, 1, dtype=torch.long)),
    "logit_slope: mu_hat": lambda: F.logit_slope(*torch.rand(2, 4), *_rest(3), delta=0.9, smoothing=None),
    "delta_slope: mask": lambda: F.delta_slope(torch.rand(3), delta=0.9, smoothing=0.1, mask=torch.ones(1).bool()),
    "trajectory_score: slope": lambda: F.trajectory_score(
        torch.rand(3), torch.rand(2), torch.rand(3), torch.zeros((), dtype=torch.long)
    ),
    "reward_to_go: reward": lambda: F.reward_to_go(torch.rand(())),
    "leave_one_out: values": lambda: F.leave_one_out(torch.rand(3, 2)),
    "enough_to_fit: state": lambda: F.enough_to_fit(torch.rand(3, 2, 4)),
    "linear_prediction: target": lambda: F.linear_prediction(torch.rand(3, 2, 1, 2), torch.rand(3, 2, 1)),
    "linear_prediction: state": lambda: F.linear_prediction(torch.rand(3, 2, 5, 2), torch.rand(3, 2, 4)),
    "ridge_root: V": lambda: F.ridge_root(torch.rand(2, 3)),
    "ridge_root_update: x": lambda: F.ridge_root_update(torch.rand(4, 2, 2), torch.rand(2)),
    "ridge_cache_error: root": lambda: F.ridge_cache_error(torch.rand(4, 2, 2), torch.rand(2, 2)),
    "ridge_estimate: arms": lambda: F.ridge_estimate(torch.rand(5, 7, 2), torch.rand(4, 2, 2), torch.rand(4, 2)),
    "ridge_estimate: b": lambda: F.ridge_estimate(torch.rand(7, 2), torch.rand(2, 2), torch.rand(3)),
    "ridge_estimate_blocks: root": lambda: F.ridge_estimate_blocks(torch.rand(7, 2), torch.rand(1, 2, 2), torch.rand(1, 2)),
    "residual_sum: squares": lambda: F.residual_sum(torch.rand(3), torch.rand(2, 2), torch.rand(2)),
    "add_residuals: mu_hat": lambda: F.add_residuals(F.Residuals(*torch.rand(2, 3)), *torch.rand(3, 2)),
    "add_residuals: reward": lambda: F.add_residuals(F.Residuals(*torch.rand(2, 3)), *torch.rand(2, 3), torch.rand(2)),
    "g_optimal_design: arms": lambda: F.g_optimal_design(torch.rand(3)),
    "cross_fitted_rewards: features": lambda: F.cross_fitted_rewards(
        torch.rand(4, 3), torch.zeros(4, dtype=torch.long), torch.rand(4)
    ),
}


def _rest(k):
    return torch.rand(()), torch.rand(k), torch.rand(())


@pytest.mark.parametrize("name", BAD)
def test_a_wrong_shape_is_named(name):
    with pytest.raises(ValueError, match=rf"^{name} must have shape .*, got \("):
        BAD[name]()


def test_wrong_settings_are_named():
    S = torch.rand(3)
    with pytest.raises(ValueError, match=r"delta_slope: delta must be in \[0.5, 1\), got 0.2"):
        F.delta_slope(S, delta=0.2, smoothing=None)
    with pytest.raises(ValueError, match=r"delta_slope: smoothing must be in \(0, inf\), got 0"):
        F.delta_slope(S, delta=0.9, smoothing=0.0)
    with pytest.raises(ValueError, match=r"draw_slate: k must be at least 1, got 0"):
        F.draw_slate(S, S, S, k=0)
    with pytest.raises(ValueError, match=r"trajectory_score: arm must be in \[0, 3\), got 3"):
        F.trajectory_score(S, S, S, torch.tensor(3))
