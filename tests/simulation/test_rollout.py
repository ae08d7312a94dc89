"""Whole rollouts: against plain loops, laws of the random numbers, tables, memory."""

import math
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from tests import reference
from tests.simulation.cases import POLICIES, SAMPLED
from torch_softucb import AutoSoftUCB, BanditProblem, LinUCB, NumericalError, SoftUCBPolicy, rollout, synthetic_problem
from torch_softucb import functional as F
from torch_softucb.simulation.backends.compiled import find_compiler
from torch_softucb.simulation.engine import Simulation


def _problem(count, seeded, seed=0, **settings):
    return synthetic_problem(
        **({"num_problems": count, "num_arms": 12, "dim": 4, "dtype": torch.double} | settings), generator=seeded(seed)
    )


def _plain_loop(policy, problem, horizon, generator):
    """The same streams, but policy(arms) and policy.update in every round: a direct solve, nothing carried forward."""
    policy.reset(batch_shape=tuple(problem.batch_shape))
    streams = Simulation(policy, problem, generator=generator)
    eps, draws = streams._noise(0, horizon), streams._draws(0, horizon)
    rounds = []
    for t in range(horizon):
        decision = policy(problem.arms, mask=problem.mask)
        arm = decision.pick(draws[t])
        reward = problem.means.gather(-1, arm.unsqueeze(-1)).squeeze(-1) + eps[t]
        every = problem.arms.expand(*problem.batch_shape, -1, -1)
        x = every.gather(-2, arm[..., None, None].expand(*arm.shape, 1, problem.dim)).squeeze(-2)
        policy.update(x, reward, decision=decision)
        rounds.append((decision, arm, reward))
    return rounds


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("shape", ["own arms", "shared arms", "single", "two dims", "masked"])
def test_equals_a_plain_loop_over_the_policy(name, shape, seeded):
    problem = _problem(6, seeded)
    if shape == "shared arms":
        problem = BanditProblem(problem.arms[0], problem.means, 0.3)
    elif shape == "single":
        problem = problem[2]
    elif shape == "two dims":
        problem = BanditProblem(problem.arms.view(2, 3, 12, 4), problem.means.view(2, 3, 12), torch.rand(2, 3).double())
    elif shape == "masked":
        mask = torch.rand(6, 12, generator=seeded(1)) > 0.5
        mask[:, 3] = True
        problem = BanditProblem(problem.arms, problem.means, 0.5, mask)
    policy = POLICIES[name](4, ridge_alpha=0.3, dtype=torch.double)
    fields = ["mu_hat", "width", "index"] + ([] if name in SAMPLED else ["probs"])
    got = rollout(policy, problem, horizon=60, generator=seeded(9), record=["arm", "reward", *fields])
    for t, (decision, arm, reward) in enumerate(_plain_loop(policy, problem, 60, seeded(9))):
        assert got.records["arm"][t].equal(arm)
        torch.testing.assert_close(got.records["reward"][t], reward, atol=1e-12, rtol=0)
        for field in fields:
            torch.testing.assert_close(got.records[field][t], getattr(decision, field).detach(), atol=1e-10, rtol=0)
        if name in SAMPLED:
            want = problem.best_mean - problem.means.gather(-1, arm.unsqueeze(-1)).squeeze(-1)
        else:
            want = F.expected_regret(decision.probs, problem.means, mask=problem.mask).detach()
        torch.testing.assert_close(got.regret[t], want, atol=1e-10, rtol=0)


@pytest.mark.parametrize("mode", ["current", "lagged", "smooth"])
def test_gradient_terms_are_eq_13_summed_by_loops(mode, seeded):
    problem, horizon = _problem(3, seeded), 40
    policy = SoftUCBPolicy(4, beta_init=0.6, coldness=mode, dtype=torch.double)
    record = ["mu_hat", "width", "gamma"]
    got = rollout(policy, problem, horizon=horizon, generator=seeded(1), gradient=True, record=record)
    for r in range(3):
        reward = penalty = 0.0
        for t in range(horizon):
            m, w = (got.records[k][t, r].tolist() for k in ("mu_hat", "width"))
            S = reference.index(m, w, 0.6, [True] * 12)
            reward += reference.reward_gradient(S, m, w, got.records["gamma"][t, r].item(), 0.6, [True] * 12)
            penalty += sum(w)
        assert got.gradient.reward[r].item() == pytest.approx(reward / horizon, abs=1e-10)
        assert got.gradient.penalty[r].item() == pytest.approx(penalty / horizon, abs=1e-10)


@pytest.mark.parametrize("name", POLICIES)
def test_same_seeds_same_trajectory_bit_for_bit(name, seeded):
    runs = [
        rollout(
            POLICIES[name](4),
            _problem(8, seeded, dtype=None),
            horizon=50,
            generator=seeded(2),
            record=["arm", "reward"],
        )
        for _ in range(2)
    ]
    assert runs[0].regret.equal(runs[1].regret)
    assert runs[0].records["arm"].equal(runs[1].records["arm"])
    assert runs[0].records["reward"].equal(runs[1].records["reward"])
    other = rollout(POLICIES[name](4), _problem(8, seeded, dtype=None), horizon=50, generator=seeded(3), record=["reward"])
    assert not other.records["reward"].equal(runs[0].records["reward"])


@pytest.mark.parametrize("name", POLICIES)
def test_a_trajectory_does_not_depend_on_its_company(name, seeded):
    problem, policy = _problem(64, seeded), POLICIES[name](4, dtype=torch.double)

    def play(part):
        return rollout(policy, part, horizon=40, generator=seeded(5), record=["arm", "reward", "index"])

    whole = play(problem)
    halves = [play(problem[:32]), play(problem[32:])]
    ones = [play(problem[i]) for i in range(64)]
    for key, exact in (("arm", True), ("reward", False), ("index", False)):
        for other in (torch.cat([h.records[key] for h in halves], 1), torch.stack([o.records[key] for o in ones], 1)):
            if exact:
                assert other.equal(whole.records[key])
            else:
                torch.testing.assert_close(other, whole.records[key], atol=1e-12, rtol=0)


def test_all_policies_meet_the_same_noise(seeded):
    problem = _problem(5, seeded)
    noise = []
    for name in POLICIES:
        got = rollout(
            POLICIES[name](4, dtype=torch.double), problem, horizon=20, generator=seeded(7), record=["arm", "reward"]
        )
        noise.append(
            got.records["reward"] - problem.means.expand(20, 5, 12).gather(-1, got.records["arm"][..., None])[..., 0]
        )
    for other in noise[1:]:
        torch.testing.assert_close(other, noise[0], atol=1e-12, rtol=0)


def test_noise_and_actions_have_streams_of_their_own(seeded):
    problem, policy = _problem(5, seeded), SoftUCBPolicy(4, dtype=torch.double)

    def play(actions, noise):
        return rollout(policy, problem, horizon=3, generator=seeded(actions), noise_generator=seeded(noise), record=["arm"])

    assert play(1, 2).records["arm"][0].equal(play(1, 3).records["arm"][0])  # the first draw knows no reward
    assert not play(1, 2).records["arm"].equal(play(4, 2).records["arm"])


def test_float32_stays_with_float64_over_1024_rounds(seeded):
    """Same arms where rounding did not tip a draw; there, mu_hat and width agree to 1e-4."""
    short, long = (_problem(64, seeded, num_arms=50, dim=10, dtype=dtype) for dtype in (torch.float32, torch.float64))
    settings = {"horizon": 1024, "record": ["arm", "mu_hat", "width"]}
    a = rollout(SoftUCBPolicy(10, beta_init=0.6), short, generator=seeded(1), **settings)
    policy = SoftUCBPolicy(10, beta_init=0.6, dtype=torch.double)
    # the float32 problem's numbers in float64: the float64 problem itself has more digits
    b = rollout(policy, short.to(torch.double), generator=seeded(1), **settings)
    same = (a.records["arm"] == b.records["arm"]).all(0)
    assert same.float().mean() > 0.3
    for name in ("mu_hat", "width"):
        torch.testing.assert_close(a.records[name][:, same].double(), b.records[name][:, same], atol=1e-4, rtol=0)
    torch.testing.assert_close(short.means.double(), long.means, atol=1e-5, rtol=0)


def test_the_policy_is_left_as_it_was(seeded):
    policy = SoftUCBPolicy(4, dtype=torch.double)
    policy.update(torch.ones(4).double(), torch.tensor(1.0).double())
    before = {k: v.clone() for k, v in policy.state_dict().items()}
    rollout(policy, _problem(3, seeded), horizon=5, generator=seeded(0))
    assert all(policy.state_dict()[k].equal(v) for k, v in before.items())


def test_one_beta_a_trajectory(seeded):
    problem = _problem(1, seeded)[0].repeat(3)
    betas = torch.tensor([0.1, 0.5, 2.0]).double()
    each = rollout(SoftUCBPolicy(4, beta_init=betas, dtype=torch.double), problem, horizon=30, generator=seeded(1))
    for r in range(3):
        policy = SoftUCBPolicy(4, beta_init=betas[r].item(), dtype=torch.double)
        alone = rollout(policy, problem[r], horizon=30, generator=seeded(1))
        torch.testing.assert_close(alone.regret, each.regret[:, r], atol=1e-10, rtol=0)


def test_progress_is_called_after_every_round(seeded):
    seen = []
    rollout(
        LinUCB(4, dtype=torch.double),
        _problem(2, seeded),
        horizon=7,
        generator=seeded(0),
        progress=lambda *a: seen.append(a),
    )
    assert seen == [(t, 7) for t in range(1, 8)]


def test_one_round_one_arm(seeded):
    got = rollout(
        SoftUCBPolicy(1),
        synthetic_problem(num_problems=2, num_arms=1, dim=1, generator=seeded(0)),
        horizon=1,
        generator=seeded(0),
    )
    torch.testing.assert_close(got.regret, torch.zeros(1, 2))


def test_long_features_are_played_exactly_or_refused(seeded):
    """In float32, width^2 of features of size 1e4 would cancel to below 0 without the recomputation in float64."""
    arms, means = torch.randn(200, 3, generator=seeded(0)), torch.randn(16, 200, generator=seeded(2))
    short, long = (
        rollout(LinUCB(3, ridge_alpha=size**2), BanditProblem(arms * size, means), horizon=200, generator=seeded(1))
        for size in (1.0, 1e4)
    )
    torch.testing.assert_close(long.regret[-1], short.regret[-1])
    rollout(LinUCB(3), BanditProblem(arms * 1e4, means), horizon=200, generator=seeded(1))
    with pytest.raises(NumericalError, match="not positive definite"):
        rollout(LinUCB(3), BanditProblem(arms * 1e8, means), horizon=200, generator=seeded(1))


# cumulative regret at T = 1024, K = 50, noise 0.5, alpha 1, mean of 512 problems
TABLE = {
    10: {0.9: (51, 44, 58, 74), 0.99: (51, 45, 50, 62), 0.999: (59, 42, 46, 56), None: (72, 48, 45, 44)},
    20: {0.9: (59, 68, 94, 126), 0.99: (61, 65, 80, 108), 0.999: (64, 60, 75, 95), None: (66, 57, 59, 72)},
}


@pytest.mark.long
@pytest.mark.parametrize("dim", TABLE)
@pytest.mark.parametrize("delta", [0.9, 0.99, 0.999, None])
def test_the_regret_table_on_fresh_problems(dim, delta, seeded):
    """Within 3 standard errors of the difference of two means of 512 problems, and half a unit for the table's rounding."""
    problem = synthetic_problem(num_problems=512, num_arms=50, dim=dim, generator=seeded(2026))
    for beta, want in zip((0.4, 0.6, 0.8, 1.0), TABLE[dim][delta], strict=True):
        policy = LinUCB(dim, beta=beta) if delta is None else SoftUCBPolicy(dim, beta_init=beta, delta=delta)
        total = rollout(policy, problem, horizon=1024, generator=seeded(7)).regret.sum(0)
        error = total.std().item() / math.sqrt(512) * math.sqrt(2)
        print(f"d {dim} delta {delta} beta {beta}: {total.mean():.1f} +- {error / math.sqrt(2):.1f}, table {want}")
        assert abs(total.mean().item() - want) < 3 * error + 0.5


@pytest.mark.long
def test_memory_at_4096_trajectories_of_1024_rounds():
    """Less than 300 MB above the import, as the operating system counts it, in a process of its own."""
    script = """
import resource, torch
from torch_softucb import SoftUCBPolicy, synthetic_problem
from torch_softucb import rollout
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
problem = synthetic_problem(num_problems=4096)
rollout(SoftUCBPolicy(10), problem, horizon=1024, gradient=True)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 300


@pytest.mark.parametrize("compile", [False, "native"])
def test_regret_and_rewards_of_drifting_problems_by_hand(compile, seeded):
    """Each round's regret against the best arm of that round; rewards without noise are that round's means."""
    problem = synthetic_problem(
        num_problems=6, num_arms=5, dim=3, drift_rate=0.2, noise_std=0.0, dtype=torch.double, generator=seeded(0)
    )
    mask = torch.ones(6, 5, dtype=torch.bool)
    mask[:, 0] = False
    problem = replace(problem, mask=mask)
    settings = {"horizon": 12, "generator": seeded(1), "discount": 0.9}
    if compile and find_compiler() is None:
        pytest.skip("needs a C++ compiler")
    recorded = rollout(
        SoftUCBPolicy(3, dtype=torch.double), problem, record=("probs", "arm", "reward", "coverage"), **settings
    )
    settings["generator"] = seeded(1)
    played = rollout(SoftUCBPolicy(3, dtype=torch.double), problem, compile=compile, **settings)
    for t in range(12):
        means = problem.means_at(t)
        best = means[:, 1:].amax(-1)
        expected = best - (recorded.records["probs"][t] * means).sum(-1)
        torch.testing.assert_close(played.regret[t], expected, atol=1e-10, rtol=0)
        arm = recorded.records["arm"][t]
        torch.testing.assert_close(recorded.records["reward"][t], means.gather(-1, arm.unsqueeze(-1)).squeeze(-1))
    assert float(played.regret.min()) >= 0


def test_a_discount_that_cannot_be_is_refused(seeded):
    problem = synthetic_problem(num_problems=2, num_arms=5, dim=3, generator=seeded(0))
    for discount in (0.0, 1.5):
        with pytest.raises(ValueError, match=r"rollout: discount must be in \(0, 1\]"):
            rollout(SoftUCBPolicy(3), problem, horizon=3, discount=discount)


@pytest.mark.parametrize("compile", [False, "native"])
@pytest.mark.parametrize("single", [False, True])
def test_one_drifting_problem_plays_as_it_does_in_company_and_is_left_as_it_was(single, compile, seeded):
    if compile and find_compiler() is None:
        pytest.skip("needs a C++ compiler")
    two = synthetic_problem(num_problems=2, num_arms=6, dim=3, drift_rate=0.05, dtype=torch.double, generator=seeded(0))
    one = two[0] if single else two[:1]
    before, policy = one.means.clone(), SoftUCBPolicy(3, dtype=torch.double)
    settings = {"horizon": 20, "compile": compile}
    alone = rollout(policy, one, generator=seeded(1), **settings).regret.reshape(20)
    torch.testing.assert_close(alone, rollout(policy, two, generator=seeded(1), **settings).regret[:, 0], atol=1e-10, rtol=0)
    assert torch.equal(one.means, before)


@pytest.mark.parametrize("compile", [False, "native"])
def test_a_learned_delta_keeps_a_single_problem_in_its_dtype(compile, seeded):
    if compile and find_compiler() is None:
        pytest.skip("needs a C++ compiler")
    policy = SoftUCBPolicy(3, learn_delta=True, coldness="smooth")
    assert policy(torch.eye(3)).probs.dtype == torch.float32
    problem = synthetic_problem(num_problems=2, num_arms=6, dim=3, generator=seeded(0))[0]
    played = rollout(policy, problem, horizon=12, record=("beta",), record_every=5, scores=True, compile=compile)
    assert played.regret.dtype == torch.float32


def test_records_asked_for_twice_are_kept_once(seeded):
    problem = synthetic_problem(num_problems=4, generator=seeded(0))
    kept = rollout(SoftUCBPolicy(10), problem, horizon=3, record=["arm", "beta", "arm"]).records
    assert {name: value.shape for name, value in kept.items()} == {"arm": (3, 4), "beta": (3, 4)}
    with pytest.raises(TypeError, match=r"record must be a sequence of names, got the string 'arm'"):
        rollout(SoftUCBPolicy(10), problem, horizon=3, record="arm")


@pytest.mark.parametrize("compile", [False, "native"])
@pytest.mark.parametrize("make", ["refreshed", "auto"])
def test_a_single_problem_plays_like_a_batch_of_one(make, compile, seeded):
    """Without a batch dimension, and with sums that the estimates are recomputed from."""
    batch = synthetic_problem(num_problems=1, num_arms=6, dim=3, generator=seeded(0))
    single = BanditProblem(batch.arms.reshape(-1, *batch.arms.shape[-2:])[0], batch.means[0], ids=torch.tensor(0))
    policy = AutoSoftUCB(3) if make == "auto" else SoftUCBPolicy(3, ridge_alpha=1e-4)
    one, other = (
        rollout(policy, problem, horizon=70, generator=seeded(1), compile=compile, gradient=True)
        for problem in (batch, single)
    )
    torch.testing.assert_close(other.regret, one.regret[:, 0])
    assert other.regret.shape == (70,)
