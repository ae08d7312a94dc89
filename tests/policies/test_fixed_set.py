"""Policies over one fixed set of arms: each against a slow reference on the raw history, and for its own law."""

import math

import numpy as np
import pytest
import torch

from torch_softucb import (
    EXP3,
    BootstrappedUCB,
    BootstrapThompson,
    LinGiro,
    LinPHE,
    PhasedElimination,
    SoftElim,
    rollout,
    synthetic_problem,
)
from torch_softucb.simulation.engine import Simulation

K, D = 6, 3
MADE = {
    "exp3": lambda **kind: EXP3(D, K, exploration=0.2, **kind),
    "phased": lambda **kind: PhasedElimination(D, K, **kind),
    "bootstrapped_ucb": lambda **kind: BootstrappedUCB(D, K, **kind),
    "bootstrap_thompson": lambda **kind: BootstrapThompson(D, K, **kind),
    "lin_phe": lambda **kind: LinPHE(D, K, reward_low=-1.0, **kind),
    "lin_giro": lambda **kind: LinGiro(D, K, reward_low=-1.0, **kind),
}


def _history(policy, seeded, rounds=40):
    """Play a bandit, uniformly among its arms, and keep what was seen."""
    g = seeded(0)
    arms = torch.nn.functional.normalize(torch.randn(K, D, dtype=torch.double, generator=g), dim=-1)
    theta = torch.randn(D, dtype=torch.double, generator=g)
    history = []
    with torch.no_grad():
        for _ in range(rounds):
            decision = policy(arms)
            arm = torch.randint(0, K - 1, (), generator=g)  # the last arm is never played
            reward = arms[arm] @ theta + 0.5 * torch.randn((), dtype=torch.double, generator=g)
            policy.update(arms[arm], reward, decision=decision, arm=arm)
            history.append((int(arm), reward.item()))
    return arms, history


@pytest.mark.parametrize("name", MADE)
def test_rollout_equals_a_plain_loop(name, seeded):
    problem = synthetic_problem(num_problems=5, num_arms=K, dim=D, dtype=torch.double, generator=seeded(0))
    policy = MADE[name](dtype=torch.double)
    got = rollout(policy, problem, horizon=30, generator=seeded(9), record=["arm", "reward", "index"])
    policy.reset(batch_shape=(5,))
    streams = Simulation(policy, problem, generator=seeded(9))
    noise, draws = streams._noise(0, 30), streams._draws(0, 30)
    for t in range(30):
        with torch.no_grad():
            decision = policy(problem.arms)
        arm = decision.pick(draws[t])
        assert got.records["arm"][t].equal(arm)
        torch.testing.assert_close(got.records["index"][t], decision.index, atol=1e-9, rtol=0)
        reward = problem.means.gather(-1, arm.unsqueeze(-1)).squeeze(-1) + noise[t]
        policy.update(problem.arms[torch.arange(5), arm], reward, decision=decision, arm=arm)


@pytest.mark.parametrize("name", MADE)
def test_masks_batches_and_single_bandits(name, seeded):
    problem = synthetic_problem(num_problems=4, num_arms=K, dim=D, dtype=torch.double, generator=seeded(1))
    mask = torch.rand(4, K, generator=seeded(2)) > 0.5
    mask[:, 2] = True
    masked = type(problem)(problem.arms, problem.means, 0.5, mask)
    got = rollout(MADE[name](dtype=torch.double), masked, horizon=40, generator=seeded(3), record=["arm"])
    assert mask.gather(-1, got.records["arm"].T).all()
    for i in range(4):
        alone = rollout(MADE[name](dtype=torch.double), masked[i], horizon=40, generator=seeded(3), record=["arm"])
        assert alone.records["arm"].equal(got.records["arm"][:, i])


@pytest.mark.parametrize("name", MADE)
def test_bad_input_changes_nothing(name):
    policy = MADE[name]()
    arms, reward = torch.eye(D).repeat(2, 1), torch.tensor(1.0)
    with torch.no_grad():
        decision = policy(arms)
    before = policy.statistics.clone()
    for settings, match in [
        ({}, "decision and arm must be given"),
        ({"decision": decision}, "decision and arm must be given"),
        ({"decision": decision, "arm": torch.tensor(K)}, r"arm must be in \[0, 6\)"),
        ({"decision": decision, "arm": torch.tensor(1.0)}, "arm must be an int64"),
    ]:
        with pytest.raises((TypeError, ValueError), match=match):
            policy.update(arms[0], reward, **settings)
    with pytest.raises(ValueError, match="one observation per bandit"):
        policy.update(arms[:2], torch.ones(2), decision=decision, arm=torch.tensor(0))
    with pytest.raises(ValueError, match="6 arms that the policy was made for, got 2"):
        policy(arms[:2])
    assert policy.statistics.equal(before)


@pytest.mark.parametrize("name", MADE)
def test_state_dict_brings_the_memory(name, seeded):
    policy = MADE[name](dtype=torch.double)
    arms, _ = _history(policy, seeded, 10)
    other = MADE[name](dtype=torch.double)
    other.load_state_dict(policy.state_dict())
    z = torch.randn(policy.normals_per_decision or 1, dtype=torch.double, generator=seeded(1)).squeeze()
    with torch.no_grad():
        assert (
            other(arms)
            .pick(z.abs() % 1 if not policy.normals_per_decision else z)
            .equal(policy(arms).pick(z.abs() % 1 if not policy.normals_per_decision else z))
        )


def test_exp3_is_the_sources_rule_by_loops(seeded):
    policy = EXP3(D, K, exploration=0.2, reward_low=-2.0, reward_high=3.0, dtype=torch.double)
    arms, history = _history(policy, seeded)
    w = [1.0] * K
    for arm, reward in history:
        p = 0.8 * w[arm] / sum(w) + 0.2 / K
        w[arm] *= math.exp(0.2 * (reward + 2) / 5 / p / K)
    with torch.no_grad():
        probs = policy(arms).probs
    np.testing.assert_allclose(probs, [0.8 * v / sum(w) + 0.2 / K for v in w], atol=1e-12)
    assert probs.min() >= 0.2 / K - 1e-12  # every arm keeps its share


def _fit(arms, rows, weights, targets, alpha=1.0):
    V = alpha * np.eye(D)
    b = np.zeros(D)
    for arm, w, y in zip(rows, weights, targets, strict=True):
        V += w * np.outer(arms[arm], arms[arm])
        b += arms[arm] * y
    return V, b


def _moments(draws):
    return draws.mean(0), np.cov(draws.T)


def _assert_same_distribution(policy, arms, literal, seeded, slack=0.0):
    """Mean and covariance of the drawn index, within 5 standard errors of the literal simulation (and ``slack``)."""
    with torch.no_grad():
        decision = policy(arms)
        z = torch.randn(40_000, policy.normals_per_decision, dtype=torch.double, generator=seeded(5))
        drawn = torch.stack([decision.draw(row) for row in z[:4000]]).numpy()
    (mean, cov), (want, want_cov) = _moments(drawn), _moments(literal)
    error = np.sqrt(np.diag(want_cov) * (1 / len(drawn) + 1 / len(literal)))
    assert (np.abs(mean - want) < 5 * error + slack).all()
    scale = np.sqrt(np.outer(np.diag(want_cov), np.diag(want_cov)))
    assert (np.abs(cov - want_cov) < (0.12 + slack) * scale + 1e-12).all()


def test_lin_phe_draws_as_perturbing_every_reward_does(seeded):
    policy = LinPHE(D, K, perturbation=2, reward_low=-1.0, reward_high=1.0, dtype=torch.double)
    arms, history = _history(policy, seeded)
    x, random = arms.numpy(), np.random.default_rng(0)
    rows = [arm for arm, _ in history]
    literal = []
    for _ in range(4000):
        coins = random.choice([-1.0, 1.0], size=(len(history), 2)).sum(1)
        _, b = _fit(x, rows, [1.0] * len(history), [y + c for (_, y), c in zip(history, coins, strict=True)])
        V, _ = _fit(x, rows, [3.0] * len(history), [0.0] * len(history), alpha=3.0)
        literal.append(x @ np.linalg.solve(V, b))
    _assert_same_distribution(policy, arms, np.array(literal), seeded)


def test_lin_giro_draws_as_resampling_every_arms_list_does(seeded):
    policy = LinGiro(D, K, pseudo=1, reward_low=-1.0, reward_high=1.0, dtype=torch.double)
    arms, history = _history(policy, seeded)
    x, random = arms.numpy(), np.random.default_rng(0)
    lists = {k: [v for arm, y in history if arm == k for v in (y, -1.0, 1.0)] for k in range(K)}
    V, _ = _fit(x, [arm for arm, _ in history], [3.0] * len(history), [0.0] * len(history), alpha=3.0)
    literal = []
    for _ in range(4000):
        b = sum(x[k] * random.choice(values, size=len(values)).sum() for k, values in lists.items() if values)
        literal.append(x @ np.linalg.solve(V, b))
    _assert_same_distribution(policy, arms, np.array(literal), seeded)


@pytest.mark.parametrize("name", ["lin_phe", "lin_giro"])
def test_the_first_rounds_span_the_features(name, seeded):
    """With rewards that are all positive, a policy that begins with any one arm would never leave it."""
    problem = synthetic_problem(num_problems=20, num_arms=30, dim=D, dtype=torch.double, generator=seeded(0))
    positive = type(problem)(problem.arms, problem.means + 2.0, 0.1)
    policy = type(MADE[name]())(D, 30, reward_low=0.0, reward_high=4.0, dtype=torch.double)
    got = rollout(policy, positive, horizon=200, generator=seeded(1), record=["arm"])
    played = problem.arms[torch.arange(20), got.records["arm"][:D]]  # (D, 20, D)
    assert (torch.linalg.svdvals(played.transpose(0, 1))[:, -1] > 0.1).all()
    assert (got.records["arm"].T.sort(-1).values.diff(dim=-1) > 0).sum(-1).min() >= 3


def test_bootstrap_thompson_draws_as_weighting_every_observation_does(seeded):
    """Normal sums against Poisson weights on the raw history of 400 rounds: they agree as sums of many do."""
    policy = BootstrapThompson(D, K, prior_std=0.7, dtype=torch.double)
    arms, history = _history(policy, seeded, 400)
    x, random = arms.numpy(), np.random.default_rng(0)
    rows, rewards = np.array([arm for arm, _ in history]), np.array([y for _, y in history])
    literal = []
    for _ in range(4000):
        w = random.poisson(1.0, len(history))
        V = np.eye(D) + (x[rows] * w[:, None]).T @ x[rows]
        b = x[rows].T @ (w * rewards) + 0.7 * random.normal(size=D)
        literal.append(x @ np.linalg.solve(V, b))
    _assert_same_distribution(policy, arms, np.array(literal), seeded, slack=0.01)


def test_bootstrapped_ucb_has_the_multiplier_bootstraps_deviation(seeded):
    policy = BootstrappedUCB(D, K, split=0.1, subgaussian_r=0.5, dtype=torch.double)
    arms, history = _history(policy, seeded)
    x, random = arms.numpy(), np.random.default_rng(0)
    V, b = _fit(x, [arm for arm, _ in history], [1.0] * len(history), [y for _, y in history])
    theta = np.linalg.solve(V, b)
    scores = np.array([(y - x[arm] @ theta) * x[arm] for arm, y in history])
    literal = random.normal(size=(20_000, len(history))) @ scores @ np.linalg.inv(V) @ x.T
    with torch.no_grad():
        decision = policy(arms)
        deviation = policy.deviation(policy._estimate("", arms, None)).numpy()
    np.testing.assert_allclose(deviation, literal.std(0), rtol=0.03)
    fail = 1 / (1 + len(history) + 1)
    width = np.sqrt(np.einsum("kd,de,ke->k", x, np.linalg.inv(V), x))
    quantile = np.quantile(literal, 1 - fail * 0.9, axis=0)
    correction = 0.5 * width**2 * math.sqrt(2 * math.log(1 / fail) * math.log(2 / fail / 0.1))
    np.testing.assert_allclose(decision.index, x @ theta + quantile + correction, rtol=0.05, atol=0.05)


def test_phased_elimination_keeps_to_its_plan(seeded):
    """Phase by phase, by loops: pulls as designed, then exactly the arms within 2 e of the best stay."""
    from torch_softucb import functional as F

    problem = synthetic_problem(num_problems=1, num_arms=K, dim=D, dtype=torch.double, generator=seeded(0))[0]
    policy = PhasedElimination(D, K, subgaussian_r=0.5, fail_prob=0.05, dtype=torch.double)
    got = rollout(policy, problem, horizon=2500, generator=seeded(1), record=["arm", "reward"])
    arms, rewards = got.records["arm"].tolist(), got.records["reward"].tolist()
    left, t, phase, x = torch.ones(K, dtype=torch.bool), 0, 1, problem.arms
    while True:
        weights, g = F.g_optimal_design(x, mask=left)
        e = 2.0**-phase
        need = 2 * 0.25 * g.item() / e**2 * math.log(K * phase * (phase + 1) / 0.05)
        pulls = [math.ceil(w * need) for w in weights.tolist()]
        if t + sum(pulls) > 2500:
            break
        played, paid = arms[t : t + sum(pulls)], rewards[t : t + sum(pulls)]
        assert [played.count(k) for k in range(K)] == pulls
        V = sum(torch.outer(x[a], x[a]) for a in played)
        theta = torch.linalg.pinv(V, hermitian=True) @ sum(x[a] * y for a, y in zip(played, paid, strict=True))
        means = x @ theta
        left = left & (means >= means[left].max() - 2 * e)
        t, phase = t + sum(pulls), phase + 1
    assert phase >= 3
    assert left[problem.means.argmax()]
    assert left.sum() < K


def test_soft_elim_by_loops_and_its_rate_learns(seeded):
    policy = SoftElim(D, rate_init=0.7, dtype=torch.double)
    g = seeded(0)
    arms = torch.randn(K, D, dtype=torch.double, generator=g)
    policy.update(torch.randn(9, D, dtype=torch.double, generator=g), torch.randn(9, dtype=torch.double, generator=g))
    decision = policy(arms)
    m, w = decision.mu_hat.tolist(), decision.width.tolist()
    mass = [math.exp(-2 * 0.7 * ((max(m) - a) / b) ** 2) for a, b in zip(m, w, strict=True)]
    np.testing.assert_allclose(decision.probs.detach(), [v / sum(mass) for v in mass], atol=1e-12)
    decision.log_prob(torch.tensor(2)).backward()
    assert policy.raw_rate.grad.isfinite()
    assert policy.raw_rate.grad != 0
    assert SoftElim(2)(torch.zeros(3, 2)).probs.isfinite().all()  # width 0


LARGE = {
    "exp3": lambda **kind: EXP3.theoretical(10, 50, horizon=1024, reward_low=-2.0, reward_high=2.0, **kind),
    "phased": lambda **kind: PhasedElimination(10, 50, **kind),
    "bootstrapped_ucb": lambda **kind: BootstrappedUCB(10, 50, **kind),
    "bootstrap_thompson": lambda **kind: BootstrapThompson(10, 50, **kind),
    "lin_phe": lambda **kind: LinPHE(10, 50, reward_low=-1.0, **kind),
    "lin_giro": lambda **kind: LinGiro(10, 50, reward_low=-1.0, **kind),
    "soft_elim": lambda **kind: SoftElim(10, **kind),
}


@pytest.mark.long
@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_worse_than_uniform_and_sublinear(name, dtype, seeded):
    """At published or default settings, on the synthetic problem: slope of log regret against log t over the last half."""
    problem = synthetic_problem(num_problems=64, dtype=dtype, generator=seeded(0))
    regret = rollout(LARGE[name](dtype=dtype), problem, horizon=1024, generator=seeded(1)).cumulative_regret.mean(-1)
    uniform = 1024 * (problem.best_mean - problem.means.mean(-1)).mean().item()
    t = torch.arange(1, 1025, dtype=torch.double)
    slope = np.polyfit(t[512:].log().numpy(), regret[512:].double().log().numpy(), 1)[0]
    print(f"{name}: regret {regret[-1]:.1f}, uniform {uniform:.1f}, slope {slope:.3f}")
    assert regret[-1] <= uniform * 1.02
    assert slope < (1.02 if name == "exp3" else 0.95)
