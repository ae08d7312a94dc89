"""Training on ratings: users are bandits, and nothing of a held-out user is in the features."""

import os

import numpy as np
import pandas as pd
import pytest
import torch

from torch_softucb.cli import main
from torch_softucb.errors import DataError
from torch_softucb.problems import ContextualProblem, load_rating_table, user_features
from torch_softucb.training import RatingsDataModule, SoftUCBOffline

SIZES = {"num_items": 6, "dim": 2, "trajectories": 8, "num_steps": 2, "eval_trajectories": 4}


def _stars(seed=0):
    return np.random.default_rng(seed).integers(1, 6, size=(20, 7))


def _write(path, stars):
    users, items = np.indices(stars.shape)
    frame = pd.DataFrame({"user": users.ravel(), "item": items.ravel(), "rating": stars.ravel()})
    frame = frame.sample(frac=0.9, random_state=0)  # with gaps
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    return str(path)


def test_users_are_bandits_and_items_arms(tmp_path):
    path = _write(tmp_path / "a.csv", _stars())
    data = RatingsDataModule(path=path, **SIZES)
    train = data.split(20)["train"]
    table = load_rating_table(path, num_items=6, learn_from=lambda count: train.numpy())
    assert (data.dim, {stage: len(pool.means) for stage, pool in data.pools.items()}) == (
        3,
        {"train": 12, "validate": 4, "test": 4},
    )
    arms = user_features(table[train.numpy()].T, dim=2, intercept=True)
    for stage, rows in data.split(20).items():
        pool = data.pools[stage]
        np.testing.assert_allclose(pool.arms.numpy(), arms, atol=1e-6)
        np.testing.assert_allclose(pool.means.numpy(), table[rows.numpy()], atol=1e-6)
        assert pool.noise_std == 0.1
    assert RatingsDataModule(path=path, intercept=False, **SIZES).dim == 2


def test_features_depend_on_training_users_alone(tmp_path):
    complete = pd.DataFrame(_stars()).stack().reset_index().set_axis(["user", "item", "rating"], axis=1)
    complete = complete[complete.index % 7 != 3]  # with gaps
    data = RatingsDataModule(path=_parquet(complete, tmp_path / "a.parquet"), **SIZES)
    held_out = torch.cat([data.split(20)[stage] for stage in ("validate", "test")])
    changed = complete.assign(rating=complete.rating.where(~complete.user.isin(held_out.tolist()), 6 - complete.rating))
    other = RatingsDataModule(path=_parquet(changed, tmp_path / "b.parquet"), **SIZES)
    assert torch.equal(data.pools["train"].arms, other.pools["train"].arms)
    assert torch.equal(data.pools["train"].means, other.pools["train"].means)
    assert not torch.equal(data.pools["test"].means, other.pools["test"].means)


def _parquet(frame, path):
    frame.to_parquet(path)
    return str(path)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_command_line_trains_on_a_table_as_python_does(suffix, tmp_path, monkeypatch, fit, capsys):
    monkeypatch.chdir(tmp_path)
    path = _write(tmp_path / f"mine.{suffix}", _stars())
    sizes = [f"--data.{name}={value}" for name, value in SIZES.items()]
    command = ["--model=SoftUCBOffline", "--model.horizon=12", "--data=torch_softucb.training.RatingsDataModule", *sizes]
    trained = main([*command, f"--data.path={path}", "--data.columns=[user,item,rating]"])
    model = SoftUCBOffline(dim=3, horizon=12)
    trainer = fit(model, RatingsDataModule(path=path, **SIZES))
    assert trained.mean_beta == model.mean_beta != 1.0
    assert trained.final_regret == model.final_regret
    for tag in ("policy/beta", "regret/cumulative", "validation/soft_ucb", "beta", "regret"):
        assert trainer.callback_metrics[tag].isfinite()
    assert "View: tensorboard" in capsys.readouterr().out


def test_candidates_change_from_round_to_round(tmp_path, fit):
    path = _write(tmp_path / "a.csv", _stars())
    every, some = RatingsDataModule(path=path, **SIZES), RatingsDataModule(path=path, candidates=2, **SIZES)
    for stage, pool in some.pools.items():
        assert isinstance(pool, ContextualProblem)
        assert (pool.slots, pool.num_arms) == (2, 6)
        assert torch.equal(pool.means, every.pools[stage].means)
        assert torch.equal(pool.arms, every.pools[stage].arms)
    model = SoftUCBOffline(dim=3, horizon=12)
    trainer = fit(model, some)
    assert model.mean_beta != 1.0
    for tag in ("policy/beta", "regret/cumulative", "policy/coverage", "validation/soft_ucb", "validation/lin_ts"):
        assert trainer.callback_metrics[tag].isfinite()
    offered = some.episode("train", 0, 8).problem
    assert offered.ids.tolist() == list(range(8))


def test_another_dim_than_the_policys_is_refused(tmp_path, fit):
    data = RatingsDataModule(path=_write(tmp_path / "a.csv", _stars()), **SIZES)
    with pytest.raises(ValueError, match="SoftUCBOffline: policy has dim 2, data has 3"):
        fit(SoftUCBOffline(dim=2, horizon=12), data)


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"dim": 6}, ValueError, "dim must be at most 5, with 6 items and 12 training users, got 6"),
        ({"num_items": 8}, DataError, r"num_items must be in \[2, 7\], got 8"),
        ({"num_items": 1}, ValueError, "num_items must be at least 2, got 1"),
        ({"noise_std": -0.1}, ValueError, "noise_std must be in"),
        ({"columns": ("user", "film", "rating")}, DataError, "got none named film among user, item, rating"),
        ({"candidates": 7}, ValueError, "candidates must be at most the number of items 6, got 7"),
        ({"candidates": 0}, ValueError, "candidates must be at least 1, got 0"),
        ({"path": "nowhere.csv"}, DataError, "nowhere.csv is not there; expected a .csv or .parquet file"),
        ({"held_out": 0.7}, ValueError, "RatingsDataModule: held_out must be in"),
    ],
)
def test_wrong_arguments(change, error, match, tmp_path):
    with pytest.raises(error, match=match):
        RatingsDataModule(**{"path": _write(tmp_path / "a.csv", _stars())} | SIZES | change)


@pytest.mark.skipif("SOFTUCB_DATA" not in os.environ, reason="SOFTUCB_DATA is not set: no MovieLens or Jester")
@pytest.mark.parametrize("folder", ["ml-100k", "jester"])
def test_real_ratings_train(folder, fit):
    data = RatingsDataModule(
        path=f"{os.environ['SOFTUCB_DATA']}/{folder}", trajectories=32, num_steps=2, eval_trajectories=32
    )
    model = SoftUCBOffline(dim=11, horizon=64, estimator="trajectory", coldness="smooth")
    fit(model, data)
    uniform = 64 * (data.pools["validate"].best_mean - data.pools["validate"].means.mean(-1)).mean()
    assert 0 < model.final_regret < uniform
