"""The search for the weights of the packaged beta: what it minimises, and that it finds a minimum."""

import math

import pytest
import torch

from experiments.pretraining import (
    FAMILY,
    FIXED_ARMS,
    MOST_WORK,
    NEGLIGIBLE,
    STEPS,
    Weights,
    family_regret,
    members,
    search,
    table_mistakes,
    uniform_regret,
)
from torch_softucb import AutoSoftUCB
from torch_softucb.policies.auto import DELTA
from torch_softucb.policies.beta.summary import SCALED


def test_the_search_finds_the_minimum_of_a_bowl():
    want = {"bias": 0.4, "forgotten": -1.5, "log_dim": -0.1}

    def objective(weights):
        return sum((weights.values.get(name, 0.0) - value) ** 2 for name, value in want.items())

    lines = []
    start = Weights({"decay": math.log(0.3)})
    found = search(objective, start, sweeps=8, note=lines.append)
    assert objective(found) < 0.02
    assert lines[0] == "start: 2.4200"
    assert found.values["decay"] == start.values["decay"]  # it changes nothing, so it stays


def test_every_step_names_a_weight():
    assert set(STEPS) <= {"bias", "decay", *SCALED}


def test_the_module_has_the_weights():
    weights = Weights({"decay": math.log(0.4), "bias": 0.1, "log_dim": -0.2})
    module = weights.module(50)
    assert module.horizon == 50
    assert module.linear.bias.item() == pytest.approx(0.1)
    assert module.linear.weight[0, SCALED.index("log_dim")].item() == pytest.approx(-0.2)
    assert module.log_decay.exp().item() == pytest.approx(0.4)


def test_members_are_the_same_each_time_and_not_too_large():
    one, other = (members(3, 8, seed=1) for _ in range(2))
    for first, second in zip(one, other, strict=True):
        assert first.problem.means.equal(second.problem.means)
        assert first.problem.num_arms * first.problem.dim * first.horizon <= MOST_WORK
    assert FAMILY.noise_band == 1.5


def test_the_objective_is_the_mean_log_regret():
    episodes = members(2, 16, seed=3)
    want = 0.0
    for episode in episodes:
        policy = AutoSoftUCB(episode.problem.dim, beta_init=1.5, delta=DELTA)
        regret = episode.play(policy, horizon=episode.horizon, compile="native").regret.sum(0).mean()
        want += math.log(regret + NEGLIGIBLE * uniform_regret(episode))
    given = []
    found = family_regret(lambda horizon: given.append(horizon) or 1.5, episodes)
    assert found == pytest.approx(want / 2)
    assert given == [None, episodes[1].horizon]  # every third member does without


def test_members_have_changing_candidates_priors_and_delays():
    episodes = members(24, 4, seed=5)
    worlds = [episode.problem for episode in episodes]
    assert any(getattr(world, "num_candidates", None) for world in worlds)
    assert any(getattr(world, "delay", None) is not None for world in worlds)
    assert any(episode.start is not None for episode in episodes)


def test_uniform_regret_by_hand():
    episode = members(1, 4, seed=3)[0]
    gaps = episode.problem.means.amax(-1, keepdim=True) - episode.problem.means
    assert uniform_regret(episode) == pytest.approx(episode.horizon * float(gaps.mean()), rel=1e-4)


def test_mistakes_on_tables(monkeypatch, tmp_path):
    torch.manual_seed(0)
    rows = "\n".join(f"{x:.3f},{'a' if x > 0 else 'b'}" for x in torch.randn(60).tolist())
    (tmp_path / "uci").mkdir()
    (tmp_path / "uci" / "easy.csv").write_text(f"x,class\n{rows}\n")
    monkeypatch.setenv("SOFTUCB_DATA", str(tmp_path))
    assert math.exp(table_mistakes(FIXED_ARMS, horizon=60, tables=["easy"])) < 25  # 30 by guessing
