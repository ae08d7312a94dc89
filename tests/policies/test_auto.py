"""SoftUCB in units of the noise: the law of units over whole episodes, what it finds, degenerate rewards."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_softucb import (
    AutoSoftUCB,
    BanditProblem,
    DisjointArms,
    RankMerger,
    SoftUCBHead,
    SoftUCBPolicy,
    SummaryBeta,
    fit,
    load_policy,
    save_policy,
    synthetic_problem,
)
from torch_softucb import functional as F
from torch_softucb.functional.scales import RegressionSums

D = torch.double
BANDITS, ARMS, DIM = 3, 5, 3


def _rotation(seed):
    return torch.linalg.qr(torch.randn(DIM, DIM, dtype=D, generator=torch.Generator().manual_seed(seed)))[0]


def _episode(kind, *, rounds, seed, a=1.0, c=0.0, s=1.0, Q=None, masked=False, bernoulli=False, beta=1.5, dtype=D):
    """Probabilities and arms of an episode; rewards a y + c and features s Q x, the same y and x for every unit."""
    g = torch.Generator().manual_seed(seed)
    policy = AutoSoftUCB(DIM, beta_init=beta, delta=0.999, rows_per_group=None if kind == "pooled" else 1, dtype=dtype)
    disjoint = DisjointArms(policy, num_arms=ARMS) if kind == "disjoint" else None
    (disjoint or policy).reset(batch_shape=(BANDITS,))
    theta = torch.randn(BANDITS, *([ARMS] if disjoint else []), DIM, dtype=D, generator=g)
    fixed = torch.randn(BANDITS, ARMS, DIM, dtype=D, generator=g)
    Q = torch.eye(DIM, dtype=D) if Q is None else Q
    probs, arms = [], []
    for _ in range(rounds):
        x = torch.randn(BANDITS, DIM, dtype=D, generator=g) if disjoint else None
        new = torch.randn(BANDITS, ARMS, DIM, dtype=D, generator=g)
        features = fixed if kind == "fixed" else new
        mask = torch.rand(BANDITS, ARMS, generator=g) < 0.7 if masked else None
        if mask is not None:
            mask[:, 0] = True
        uniform, noise = torch.rand(BANDITS, dtype=D, generator=g), torch.randn(BANDITS, dtype=D, generator=g)
        shown = s * (x if disjoint else features) @ Q
        decision = (disjoint or policy)(shown.to(dtype), mask=mask)
        arm = decision.pick(uniform)
        rows = torch.arange(BANDITS)
        mean = (x * theta[rows, arm]).sum(-1) if disjoint else (features[rows, arm] * theta).sum(-1)
        y = (mean + noise > 0).double() if bernoulli else mean + 0.5 * noise
        reward = (a * y + c).to(dtype)
        if disjoint:
            disjoint.update(shown.to(dtype), arm, reward)
        else:
            policy.update(shown[rows, arm].to(dtype), reward)
        probs.append(decision.probs.detach())
        arms.append(arm)
    return torch.stack(probs), torch.stack(arms), policy


@given(
    st.sampled_from(["fixed", "changing", "pooled", "disjoint"]),
    st.integers(0, 10_000),
    st.floats(-6, 6),
    st.floats(-1e3, 1e3),
    st.floats(-3, 3),
    st.booleans(),
    st.booleans(),
)
def test_units_change_no_decision(kind, seed, power, shift, length, masked, bernoulli):
    a = 10.0**power
    same = {"rounds": 40, "seed": seed, "masked": masked, "bernoulli": bernoulli}
    probs, arms, _ = _episode(kind, **same)
    others, drawn, _ = _episode(kind, **same, a=a, c=a * shift, s=10.0**length, Q=_rotation(seed))
    assert drawn.equal(arms)
    torch.testing.assert_close(others, probs, atol=1e-8, rtol=0)


@pytest.mark.parametrize("kind", ["fixed", "changing", "pooled", "disjoint"])
def test_units_change_no_decision_over_a_long_episode(kind):
    probs, arms, _ = _episode(kind, rounds=400, seed=1)
    others, drawn, _ = _episode(kind, rounds=400, seed=1, a=1e-2, c=3.0, s=30.0, Q=_rotation(3))
    assert drawn.equal(arms)
    torch.testing.assert_close(others, probs, atol=1e-8, rtol=0)


def test_units_change_little_in_float32():
    probs, arms, _ = _episode("changing", rounds=30, seed=2, dtype=torch.float32)
    others, drawn, _ = _episode("changing", rounds=30, seed=2, dtype=torch.float32, a=100.0, c=100.0, s=0.1)
    assert drawn.equal(arms)
    torch.testing.assert_close(others, probs, atol=1e-3, rtol=0)


def test_the_scales_are_those_of_all_observations_at_the_last_due_time():
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(50, DIM, dtype=D, generator=g), 40 + 7 * torch.randn(50, dtype=D, generator=g)
    policy = AutoSoftUCB(DIM, dtype=D)
    for i in range(50):
        policy.update(x[i], y[i])
    n = int(policy.scales.summary[0])
    assert 50 / 1.3 <= n <= 50
    x, y = x[:n], y[:n]
    found = F.evidence_scales(
        RegressionSums(torch.tensor(float(n), dtype=D), x.sum(0), y.sum(), x.T @ x, x.T @ y, y.square().sum())
    )
    torch.testing.assert_close(policy.offset, found.offset, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(policy.noise_std, found.noise_std, rtol=1e-9, atol=0)
    torch.testing.assert_close(policy.prior_std, found.prior_std, rtol=1e-9, atol=0)


def test_the_decision_is_that_of_the_paper_with_these_scales():
    """Means and widths by the definition: theta from rewards minus the offset, widths times the noise."""
    _, _, policy = _episode("changing", rounds=30, seed=4)
    arms = torch.randn(ARMS, DIM, dtype=D, generator=torch.Generator().manual_seed(5))
    decision = policy(arms)
    state, scales = policy.state, policy.scales
    V = state.V
    for row in range(BANDITS):
        moment = state.b[row] - scales.offset[row] * scales.sum_x[row]
        mu_hat = arms @ torch.linalg.solve(V[row], moment)
        slope = 1 - arms @ scales.offset_direction[row]  # of the mean with respect to the offset
        square = (arms @ torch.linalg.inv(V[row]) * arms).sum(-1) + slope.square() * scales.offset_variance[row]
        width = scales.noise_std[row] * square.sqrt()
        torch.testing.assert_close(decision.mu_hat[row], policy.offset[row] + mu_hat)
        torch.testing.assert_close(decision.width[row], width)
        index = F.soft_ucb_index(mu_hat, width, decision.beta)
        gamma = F.smooth_coldness(index, 0.999, smoothing=0.1)
        torch.testing.assert_close(decision.probs[row], torch.softmax(gamma * index, -1))


def test_widths_are_those_of_a_constant_feature_that_is_not_shrunk():
    """Where the scales have just been estimated: posterior deviation of c + x . theta with a flat prior on c."""
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(9, DIM, dtype=D, generator=g), 40 + 7 * torch.randn(9, dtype=D, generator=g)
    policy = AutoSoftUCB(DIM, dtype=D)
    for i in range(9):
        policy.update(x[i], y[i])
    assert policy.scales.summary[0] == 9
    design = torch.cat((torch.ones(9, 1, dtype=D), x), dim=1)
    ridge = torch.diag(torch.cat((torch.zeros(1, dtype=D), policy.scales.rho.expand(DIM))))
    inverse = torch.linalg.inv(design.T @ design + ridge)
    arms = torch.randn(ARMS, DIM, dtype=D, generator=g)
    rows = torch.cat((torch.ones(ARMS, 1, dtype=D), arms), dim=1)
    with torch.no_grad():
        decision = policy(arms)
    torch.testing.assert_close(decision.width, policy.noise_std * (rows @ inverse * rows).sum(-1).sqrt())
    torch.testing.assert_close(decision.mu_hat, rows @ inverse @ design.T @ y)


def test_the_ridge_is_rho_times_the_identity_and_the_root_belongs_to_it():
    _, _, policy = _episode("pooled", rounds=30, seed=4)
    scales = policy.scales
    gram = policy.state.V - scales.rho[:, None, None] * torch.eye(DIM, dtype=D)
    assert torch.linalg.eigvalsh(gram).min() > -1e-9
    assert policy.cache_error().max() < 1e-10
    assert scales.rho.unique().numel() == scales.noise_std.unique().numel() == 1
    assert policy.offset.shape == policy.noise_std.shape == ()


def _rewards(case, n, g):
    return {
        "equal": torch.full((n,), 3.0, dtype=D),
        "noise-free": torch.arange(n, dtype=D),
        "clicks": (torch.rand(n, generator=g) < 0.1).double(),
        "huge": 1e12 * torch.randn(n, dtype=D, generator=g),
    }[case]


@pytest.mark.parametrize("case", ["equal", "noise-free", "clicks", "huge"])
@pytest.mark.parametrize("features", ["random", "zero", "duplicates", "one-hot"])
def test_degenerate_data_never_raise_and_explore(case, features):
    g = torch.Generator().manual_seed(0)
    arms = torch.randn(4, 6, dtype=D, generator=g)
    arms = {"zero": arms * 0, "duplicates": arms[:1].expand(4, 6), "one-hot": torch.eye(6, dtype=D)[:4]}.get(features, arms)
    policy = AutoSoftUCB(6, dtype=D)
    seen = set()
    for y in _rewards(case, 40, g):
        decision = policy(arms)
        assert bool(decision.probs.isfinite().all())
        arm = decision.sample(g)
        seen.add(int(arm))
        policy.update(arms[arm], y)
    assert len(seen) == 4
    if case == "equal":
        assert policy.noise_std is None


def test_before_the_noise_is_known_arms_are_ranked_by_width():
    policy = AutoSoftUCB(2, dtype=D)
    arms = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=D)
    for reward in (5.0, 5.0, 5.0, 5.0):
        policy.update(arms[0], torch.tensor(reward, dtype=D))
    decision = policy(arms)
    assert policy.offset is None
    assert decision.probs[1] > 0.9
    assert decision.mu_hat.tolist() == [5.0, 5.0]


def test_forgetting_keeps_up_with_a_change_of_unit():
    g = torch.Generator().manual_seed(0)
    policy = AutoSoftUCB(DIM, dtype=D)
    for scale in (1.0, 100.0):
        for _ in range(300):
            policy.update(
                torch.randn(DIM, dtype=D, generator=g), scale * torch.randn((), dtype=D, generator=g), discount=0.95
            )
    assert policy.noise_std.item() == pytest.approx(100, rel=0.5)
    assert policy.scales.weight.item() == pytest.approx(20, rel=1e-3)


def test_a_saved_policy_goes_on_bit_by_bit(tmp_path):
    _, _, policy = _episode("pooled", rounds=20, seed=4)
    save_policy(tmp_path / "policy", policy)
    other = load_policy(tmp_path / "policy")
    assert isinstance(other, AutoSoftUCB)
    for p in (policy, other):
        p.update(torch.ones(BANDITS, DIM, dtype=D), torch.arange(3.0, dtype=D))
    assert other.statistics.equal(policy.statistics)
    assert other.pooled


def test_auto_is_the_packaged_beta_and_takes_another():
    assert SoftUCBPolicy.auto(3).batch_shape == ()
    assert SoftUCBPolicy.auto(3, horizon=100, beta_init=0.7).beta.item() == pytest.approx(0.7)
    assert SoftUCBPolicy.auto(3, beta_init=SummaryBeta(init=1.1)).beta_module.init == 1.1
    with pytest.raises(TypeError, match="unexpected keyword argument 'ridge_alpha'"):
        AutoSoftUCB(3, ridge_alpha=2.0)
    assert SoftUCBPolicy.auto(3, pooled=True).pooled


def test_impossible_scales_are_refused():
    policy = AutoSoftUCB(2)
    state = policy.state_dict()
    state["statistics"] = state["statistics"].clone()
    state["statistics"][policy.layout.memory.start + 6] = -1.0  # rho
    with pytest.raises(ValueError, match="the memory is not one that this policy can have"):
        policy.load_state_dict(state)


def test_replicas_cannot_be_merged_yet():
    with pytest.raises(ValueError, match="also keeps the scales that each replica has estimated"):
        RankMerger(AutoSoftUCB(2))


def test_a_head_recommends_the_same_in_stars_and_in_cents():
    items = torch.randn(30, 4, dtype=D, generator=torch.Generator().manual_seed(0))
    shown = []
    for a, c in ((1.0, 0.0), (100.0, 0.0), (0.25, -0.25)):
        g = torch.Generator().manual_seed(1)
        policy = SoftUCBPolicy.auto(4, beta_init=1.0, pooled=True, dtype=D)
        policy.reset(batch_shape=(5,))
        encoder = torch.nn.Embedding.from_pretrained(items)
        head = SoftUCBHead(encoder, policy, narrow_pending=True, seed=0, replica=0)
        arms = []
        for _ in range(30):
            users = torch.randperm(5, generator=g)[:3]
            candidates = torch.randint(30, (3, 6), generator=g)
            served = head.serve(head(candidates, bandit=users))
            stars = (3 + served.x.sum(-1) + torch.randn(3, dtype=D, generator=g)).clamp(1, 5).round()
            head.feedback(served.id, a * stars + c)
            arms.append(served.arm)
        shown.append(torch.stack(arms))
    assert shown[0].equal(shown[1])
    assert shown[0].equal(shown[2])


def test_users_that_share_scales_are_not_arms():
    """The summary of a pool is that of an average user; that of arms counts them."""
    pooled, arms = AutoSoftUCB(2, rows_per_group=None, dtype=D), AutoSoftUCB(2, dtype=D)
    pooled.reset(batch_shape=(4,))
    disjoint = DisjointArms(arms, num_arms=4)
    g = torch.Generator().manual_seed(0)
    for _ in range(5):
        x, y = torch.randn(4, 2, dtype=D, generator=g), torch.randn(4, dtype=D, generator=g)
        pooled.update(x, y)
        disjoint.update(x, torch.arange(4), y)
    assert pooled.scales.summary[0, :2].tolist() == [5.0, 1.0]
    assert arms.scales.summary[0, :2].tolist() == [20.0, 4.0]
    torch.testing.assert_close(pooled.scales.summary[0, 2:], arms.scales.summary[0, 2:])


def test_beta_is_learned_in_units_of_the_noise():
    """From far above and in two units: the same betas, and a smaller regret."""
    ends = []
    for scale in (1.0, 100.0):
        policy = AutoSoftUCB(3, beta_init=8.0, delta=0.99, dtype=D)

        def problems(count, generator, scale=scale):
            problem = synthetic_problem(num_problems=count, num_arms=5, dim=3, generator=generator).to(D)
            return BanditProblem(problem.arms, scale * problem.means, noise_std=scale * 0.5, ids=problem.ids)

        result = fit(policy, problems, horizon=60, estimator="trajectory", steps=6, trajectories=64, compile="native")
        ends.append(torch.tensor(result.betas))
    assert ends[0][-1] < 8.0
    # the fit of the control variate has a tiny ridge in the unit of its largest input
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-2, atol=0)
