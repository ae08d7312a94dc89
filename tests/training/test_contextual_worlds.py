"""Everything that learns beta runs on worlds with changing candidates: two steps each."""

import itertools
import math

import pytest
import torch

from tests.simulation.cases import needs_compiler
from torch_softucb import SoftUCBPolicy, contextual_problem
from torch_softucb.learning import fit
from torch_softucb.learning.dual import Dual
from torch_softucb.learning.episode import Episode
from torch_softucb.learning.online import run_online
from torch_softucb.simulation.engine import Simulation
from torch_softucb.training import BanditDataModule, SoftUCBMeta, SoftUCBOffline, SoftUCBOnline
from torch_softucb.training.data import EpisodeDataModule

BACKENDS = [False, pytest.param("native", marks=needs_compiler)]
DIM, ITEMS = 3, 12
SETS = torch.tensor([[0, 1, 2, -1], [3, 4, -1, -1], [5, 6, 7, 8], [9, 10, 11, 0]])
WORLDS = {
    "late": {"candidates": 4, "delay": 2},
    "sets": {"candidates": SETS, "delay": torch.tensor([0.5, 0.3])},
    "masked": {"candidates": 4, "mask": torch.arange(ITEMS) % 4 == 0},
}


def world_of(name, count=16, generator=None):
    generator = torch.Generator().manual_seed(1) if generator is None else generator
    items = torch.randn(ITEMS, DIM, generator=torch.Generator().manual_seed(0))
    return contextual_problem(items, theta=torch.randn(count, DIM, generator=generator), **WORLDS[name])


class ContextualData(BanditDataModule):
    """Batches of a world with changing candidates."""

    def __init__(self, name, **settings):
        super().__init__(num_arms=ITEMS, dim=DIM, trajectories=16, num_steps=2, eval_trajectories=16, **settings)
        self.name = name

    def problems(self, stage, number, count, *, first=0):
        return world_of(self.name, first + count)[first:]


@pytest.mark.parametrize("compile", BACKENDS)
@pytest.mark.parametrize("estimator", ["trajectory", "common_random_numbers", "paper"])
@pytest.mark.parametrize("name", WORLDS)
def test_fit_moves_beta(name, estimator, compile):
    policy = SoftUCBPolicy(DIM, beta_init=2.0, coldness="smooth")
    eta = Dual(0.8) if estimator == "paper" else 0.0
    result = fit(policy, world_of(name), horizon=10, estimator=estimator, steps=2, trajectories=16, eta=eta, compile=compile)
    assert len(set(result.betas)) == 3
    assert all(math.isfinite(value) and value > 0 for value in (*result.betas, *result.regrets))


@needs_compiler
def test_fit_gives_the_same_numbers_on_all_backends():
    runs = []
    for compile in (False, "native"):
        policy = SoftUCBPolicy(DIM, beta_init=2.0, coldness="smooth", dtype=torch.double)
        world = world_of("sets").to(torch.double)
        runs.append(fit(policy, world, horizon=10, steps=2, trajectories=16, compile=compile))
    assert runs[1].betas == pytest.approx(runs[0].betas, rel=1e-9)
    assert runs[1].regrets == pytest.approx(runs[0].regrets, rel=1e-9)


def test_fit_of_drawn_worlds_and_of_auto():
    for policy in (SoftUCBPolicy.auto(DIM, horizon=10), SoftUCBPolicy(DIM, coldness="smooth", learn_delta=True)):
        before = [parameter.detach().clone() for parameter in policy.parameters()]
        fit(policy, lambda count, generator: world_of("late", count, generator), horizon=10, steps=2, trajectories=16)
        after = list(policy.parameters())
        assert not all(torch.equal(old, new) for old, new in zip(before, after, strict=True))
        assert all(parameter.isfinite().all() for parameter in after)


@pytest.mark.parametrize("compile", BACKENDS)
@pytest.mark.parametrize(("eta", "estimator"), [("auto", "paper"), (0.1, "paper"), (0.0, "trajectory")])
def test_the_offline_trainer_learns_and_validates(eta, estimator, compile, fit):
    model = SoftUCBOffline(dim=DIM, horizon=10, eta=eta, estimator=estimator, coldness="smooth", compile=compile)
    before = model.mean_beta
    trainer = fit(model, ContextualData("sets"), max_epochs=1)
    assert trainer.global_step == 2
    assert model.mean_beta != before
    logged = trainer.logged_metrics
    assert 0 <= float(logged["policy/coverage"]) <= 1
    assert all(math.isfinite(float(value)) for value in logged.values())


@pytest.mark.parametrize("compile", BACKENDS)
@pytest.mark.parametrize(("name", "eta"), [("sets", "auto"), ("sets", 1.0), ("masked", 1.0)])
def test_the_online_trainer_learns_and_logs_the_candidates_of_the_round(name, eta, compile, fit):
    """At most 4 candidates, of which at least one is not suboptimal; the mask of the problem has 12 entries."""
    model = SoftUCBOnline(num_trajectories=16, dim=DIM, horizon=10, rounds_per_step=5, eta=eta, compile=compile)
    trainer = fit(model, ContextualData(name, one_episode=True), max_epochs=1, log_every_n_steps=1)
    assert model.rounds_played == 10
    assert len(model.policy.beta.unique()) > 1
    logged = trainer.logged_metrics
    assert 0 <= float(logged["policy/num_suboptimal"]) < 4
    assert 0 <= float(logged["policy/coverage"]) <= 1
    assert all(math.isfinite(float(value)) for value in logged.values())


@pytest.mark.parametrize("compile", BACKENDS)
def test_algorithm_3_runs_without_lightning(compile):
    policy = SoftUCBPolicy(DIM, beta_init=torch.ones(16), coldness="current")
    generator = torch.Generator().manual_seed(0)
    simulation = Simulation(policy, world_of("late"), generator=generator, gradient=True, compile=compile)
    run = run_online(policy, simulation, horizon=10)
    assert run.beta.shape == (10, 16)
    assert not run.beta[-1].equal(run.beta[0])


class Worlds(EpisodeDataModule):
    """A family of worlds: another one, with another horizon, per step."""

    def episode(self, stage, number, count):
        name = list(itertools.islice(itertools.cycle(WORLDS), number + 1))[-1]
        return Episode(world_of(name, count), 10 + number, 20 + number, horizon=8 + number)


def test_a_beta_module_is_learned_for_a_family_of_worlds(fit):
    model = SoftUCBMeta()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    trainer = fit(model, Worlds(trajectories=16, num_steps=2, eval_trajectories=16), max_epochs=1)
    assert trainer.global_step == 2
    assert not all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
    assert math.isfinite(float(trainer.logged_metrics["family/regret"]))
