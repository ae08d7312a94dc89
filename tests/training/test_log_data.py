"""Training on a decision log: the command line and Python agree, stages draw different problems of one posterior."""

from dataclasses import replace

import pandas as pd
import pytest
import torch

from tests.from_logs.cases import random_log
from tests.from_logs.test_delays import write as write_delayed
from torch_softucb.cli import main
from torch_softucb.from_logs import logged_delays
from torch_softucb.problems import ContextualProblem
from torch_softucb.training import LogDataModule, SoftUCBOffline, SoftUCBOnline

SIZES = {"trajectories": 8, "num_steps": 2, "eval_trajectories": 4}


@pytest.fixture
def path(tmp_path, seeded):
    log, _ = random_log(200, 5, 3, seeded, bandits=4)
    rows = {name: getattr(log, name).tolist() for name in ("x", "arm", "reward", "features", "bandit")}
    pd.DataFrame(rows).to_parquet(tmp_path / "log.parquet")
    return str(tmp_path / "log.parquet")


def test_problems_come_from_the_posterior(path):
    data = LogDataModule(path=path, **SIZES, noise="empirical", delay=2)
    assert (data.dim, len(data.posterior.names)) == (3, 4)
    train, again, validate = (data.problems(stage, 0, 8) for stage in ("train", "train", "validate"))
    assert isinstance(train, ContextualProblem)
    assert (train.reward, train.fixed_delay) == ("empirical", 2)
    assert train.means.equal(again.means)
    assert not train.means.equal(validate.means)
    assert not train.means.equal(data.problems("train", 1, 8).means)
    part = data.problems("train", 0, 3, first=5)
    assert part.means.equal(train.means[5:])
    assert part.ids.tolist() == [5, 6, 7]
    assert len(LogDataModule(path=path, per_user=False, **SIZES).posterior.names) == 1
    streamed = LogDataModule(path=path, stream=True, **SIZES)
    torch.testing.assert_close(streamed.posterior.theta.mean, data.posterior.theta.mean)


def test_the_command_line_trains_on_a_log_as_python_does(path, tmp_path, monkeypatch, fit):
    monkeypatch.chdir(tmp_path)
    sizes = [f"--data.{name}={value}" for name, value in SIZES.items()]
    command = ["--model=SoftUCBOffline", "--model.horizon=12", "--data=torch_softucb.training.LogDataModule", *sizes]
    trained = main([*command, f"--data.path={path}"])
    model = SoftUCBOffline(dim=3, horizon=12)
    trainer = fit(model, LogDataModule(path=path, **SIZES))
    assert trained.mean_beta == model.mean_beta != 1.0
    assert trainer.callback_metrics["validation/soft_ucb"].isfinite()


def test_a_prior_is_fitted_and_every_policy_starts_from_it(path, fit):
    data = LogDataModule(path=path, prior="fit", delay=[0.5, 0.25], **SIZES)
    assert data.prior.dim == 3
    assert data.posterior.offset == data.prior.offset
    episode = data.episode("train", 0, 8)
    assert episode.start is data.prior
    assert episode.problem.delay.tolist() == [0.5, 0.25]
    model = SoftUCBOffline(dim=3, horizon=6, coldness="smooth")
    trainer = fit(model, data)
    assert trainer.callback_metrics["validation/soft_ucb"].isfinite()
    with_prior, without = (e.play(model.policy, horizon=6).regret for e in (episode, replace(episode, start=None)))
    assert not with_prior.equal(without)
    assert LogDataModule(path=path, **SIZES).episode("train", 0, 8).start is None


def test_delays_of_the_log(tmp_path, seeded):
    write_delayed(tmp_path, 40, 3, seeded(0))
    data = LogDataModule(path=str(tmp_path), delay="logged", **SIZES)
    torch.testing.assert_close(data.problems("train", 0, 2).delay, logged_delays(tmp_path).float())
    with pytest.raises(ValueError, match="delay must be one of 'logged'"):
        LogDataModule(path=str(tmp_path), delay="late", **SIZES)


def test_the_online_trainer_starts_from_the_prior_too(path, fit):
    data = LogDataModule(path=path, prior="fit", **{**SIZES, "one_episode": True})
    model = SoftUCBOnline(num_trajectories=8, dim=3, horizon=4, rounds_per_step=2)
    fit(model, data)
    assert model.simulation is None or model.simulation._player.prior == data.prior


def test_bad_input_is_named(path, tmp_path):
    with pytest.raises(ValueError, match="LogDataModule: prior must be"):
        LogDataModule(path=path, prior="guess", **SIZES)
    with pytest.raises(ValueError, match=r"LogDataModule: delay must be probabilities that add up to .*, got 1.2"):
        LogDataModule(path=path, delay=[0.9, 0.3], **SIZES)
    with pytest.raises(ValueError, match="LogDataModule: delay must be in"):
        LogDataModule(path=path, delay=[-1.0], **SIZES)
    with pytest.raises(ValueError, match="LogDataModule: noise must be"):
        LogDataModule(path=path, noise="cauchy", **SIZES)
    with pytest.raises(ValueError, match="nothing is not there"):
        LogDataModule(path=str(tmp_path / "nothing"), **SIZES)
