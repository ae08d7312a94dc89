"""Widths of long rollouts stay within 1e-3, in every backend, whatever alpha and the lengths of the features."""

import pytest
import torch

from tests.simulation.cases import find_compiler
from torch_softucb import BanditProblem, LinTS, LinUCB, SoftUCBPolicy, synthetic_problem
from torch_softucb.simulation.arm_features import ArmFeatures
from torch_softucb.simulation.engine import Simulation
from torch_softucb.simulation.refresh import Refresh

BOUND = 1e-3


def _problem(seeded, *, length=1.0, num_problems=16, dtype=torch.float32, dim=10, num_arms=50):
    made = synthetic_problem(num_problems=num_problems, dim=dim, num_arms=num_arms, generator=seeded(0), dtype=dtype)
    scale = torch.as_tensor(length, dtype=dtype).expand(num_arms).unsqueeze(-1)
    return BanditProblem(made.arms * scale, made.means)


def _played(policy, problem, rounds, generator, compile):
    """Play and return the simulation and how often each arm was played, counted without its help."""
    if compile and find_compiler() is None:
        pytest.skip("needs a C++ compiler")
    simulation = Simulation(policy, problem, generator=generator, compile=compile)
    counts = torch.zeros(*problem.batch_shape, problem.num_arms, dtype=torch.double)
    for played in simulation.play(rounds, recorded=lambda t: not compile):
        if played.arm is not None:
            counts.scatter_add_(-1, played.arm.unsqueeze(-1), torch.ones_like(played.arm).double().unsqueeze(-1))
    if compile:
        counts = simulation.state.arm_sums[..., 0]
    return simulation, counts


def _error(simulation, counts, alpha):
    """Largest relative error of a width, against float64 algebra on the arms that were played."""
    arms = simulation.problem.arms.double()
    V = (arms * counts.unsqueeze(-1)).mT @ arms + alpha * torch.eye(arms.shape[-1], dtype=torch.double)
    exact = (arms * torch.linalg.solve(V, arms.mT).mT).sum(-1).sqrt()
    return float(((simulation.state.width_sq.movedim(0, -1).double().sqrt() - exact).abs() / exact).max())


SETTINGS = {
    "alpha 1e-3": (1.0, 1e-3),
    "length 0.03": (0.03, 1.0),
    "length 30": (30.0, 1.0),
    "lengths 0.03 to 30": (torch.logspace(-1.52, 1.48, 50), 1.0),
    "length 30, alpha 1e-3": (30.0, 1e-3),
}


@pytest.mark.parametrize("compile", [False, "native"])
@pytest.mark.parametrize("name", SETTINGS)
def test_float32_widths_stay_within_the_bound_over_1024_rounds(name, compile, seeded):
    length, alpha = SETTINGS[name]
    policy = LinUCB(10, beta=0.5, ridge_alpha=alpha)
    problem = _problem(seeded, length=length)
    if compile and name == "length 0.03":
        pytest.skip("no sums are kept, as no refresh is needed; the eager case counts the arms itself")
    simulation, counts = _played(policy, problem, 1024, seeded(1), compile)
    assert _error(simulation, counts, alpha) <= BOUND


@pytest.mark.long
def test_float32_widths_stay_within_the_bound_over_65536_rounds(seeded):
    policy = SoftUCBPolicy(10, beta_init=0.3)
    simulation, counts = _played(policy, _problem(seeded), 65_536, seeded(1), "native")
    assert int(counts.sum(-1).amin()) == 65_536
    assert _error(simulation, counts, 1.0) <= BOUND


@pytest.mark.slow
def test_float32_widths_stay_within_the_bound_over_16384_rounds(seeded):
    """One arm that is nearly always played is the worst case."""
    problem = _problem(seeded, dim=4, num_arms=6)
    simulation, counts = _played(LinUCB(4, beta=0.1), problem, 16_384, seeded(1), "native")
    assert _error(simulation, counts, 1.0) <= BOUND


def test_float64_is_recomputed_where_features_are_long(seeded):
    problem = _problem(seeded, length=1e4, dtype=torch.float64)
    policy = LinUCB(10, beta=0.5, ridge_alpha=1e-3, dtype=torch.float64)
    simulation, counts = _played(policy, problem, 256, seeded(1), False)
    assert _error(simulation, counts, 1e-3) <= 1e-6


def test_float64_with_features_of_length_1_keeps_its_numbers(seeded):
    problem = _problem(seeded, dtype=torch.float64)
    refresh = Refresh(problem, ArmFeatures(problem), 1.0)
    assert not refresh.needed
    assert not any(refresh.due(t) for t in range(5000))
    simulation = Simulation(LinUCB(10, dtype=torch.float64), problem)
    assert simulation.state.arm_sums is None


def test_sums_give_back_the_mean_and_a_root_of_the_inverse(seeded):
    problem = _problem(seeded, length=30.0, num_problems=5)
    policy = LinTS(10, scale=0.3)
    simulation = Simulation(policy, problem, generator=seeded(1))
    rounds = [(played.arm.clone(), played.reward.double()) for played in simulation.play(64)]
    simulation._refresh.apply(simulation.state)
    V, b = torch.eye(10).double().repeat(5, 1, 1), torch.zeros(5, 10).double()
    for arm, reward in rounds:
        x = problem.arms.double()[torch.arange(5), arm]
        V += x.unsqueeze(-1) * x.unsqueeze(-2)
        b += x * reward.unsqueeze(-1)
    mu_hat = (problem.arms.double() @ torch.linalg.solve(V, b).unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(simulation.state.mu_hat.movedim(0, -1).double(), mu_hat, atol=1e-5, rtol=1e-5)
    root = simulation.state.root.movedim((0, 1), (-2, -1)).double()
    torch.testing.assert_close(root @ root.mT @ V, torch.eye(10).double().expand(5, 10, 10), atol=1e-3, rtol=0)


@pytest.mark.parametrize("compile", [False, "native"])
def test_a_recomputed_trajectory_does_not_depend_on_batch_or_blocks(compile, seeded):
    """Trajectories with long features are recomputed next to others that are not, bit for bit as alone."""
    problem = _problem(seeded, num_problems=20, length=1.0)
    arms = problem.arms * torch.where(torch.arange(20) % 3 == 0, 30.0, 1.0).view(-1, 1, 1)
    problem = BanditProblem(arms, problem.means, ids=problem.ids)

    def regret(part, stretch):
        if compile and find_compiler() is None:
            pytest.skip("needs a C++ compiler")
        simulation = Simulation(SoftUCBPolicy(10, beta_init=0.3), part, generator=seeded(4), compile=compile)
        return torch.cat([p.regret.clone() for p in simulation.play(70, recorded=lambda t: False, stretch=stretch)])

    whole = regret(problem, None)
    assert whole.equal(regret(problem, 7))
    if compile:  # eager sums over a batch are rounded differently for other batch sizes
        assert torch.cat([regret(problem[:5], None), regret(problem[5:], None)], 1).equal(whole)


def test_when_a_refresh_is_due(seeded):
    problem = _problem(seeded)
    one, long = (Refresh(problem, ArmFeatures(problem), alpha) for alpha in (1.0, 1e-6))
    assert [t for t in range(5000) if one.due(t)] == [2048, 3072, 4096]
    assert [t for t in range(1100) if long.due(t)] == [*range(1, 65), 128, 256, 512, 1024]


def test_a_known_horizon_keeps_sums_only_for_refreshes_before_it(seeded):
    problem, policy = _problem(seeded, num_problems=3), LinUCB(10, beta=0.5)
    short, long = (Simulation(policy, problem, generator=seeded(1), horizon=horizon) for horizon in (2047, 2049))
    assert short.state.arm_sums is None
    assert long.state.arm_sums is not None
    list(short.play(2047))
    with pytest.raises(ValueError, match=r"built for 2047 rounds, got 2047 \+ 1; build it with a larger horizon"):
        next(short.play(1))
