"""The command line: what it writes, and one readable error for every wrong input."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml

from torch_softucb.checked_files import add_checksum, save_checked
from torch_softucb.cli import main

ROOT = Path(__file__).parents[1]
CONFIGS = sorted((ROOT / "scripts" / "configs").glob("*.yaml"))
TINY = ["--data.trajectories", "8", "--data.num_steps", "4", "--data.eval_trajectories", "8"]
TINY += ["--model.init_args.horizon", "12", "--trainer.devices", "1", "--trainer.strategy", "auto"]
SYNTHETIC = ["--data.num_arms", "6", "--data.dim", "3"]
ONLINE = [*SYNTHETIC, "--model.init_args.num_trajectories", "8", "--model.init_args.rounds_per_step", "3"]
SIZES = {  # of configs whose data are not BanditDataModule
    "family": ["--data.family.dim", "[3, 3]", "--data.family.num_arms", "[4, 8]", "--data.eval_members", "2"],
    "log": [],
    "online": ONLINE,
    "online_auto": ONLINE,
    "problem": [],
    "ratings": ["--data.num_items", "6", "--data.dim", "2"],
}


def _write_data(config):
    """Write the file that a config names to the present folder."""
    if config == "problem":
        means = np.random.default_rng(0).normal(size=(5, 4))
        np.savez("problem.npz", arms=np.eye(4, 3), means=means)
    if config == "log":
        x = np.random.default_rng(0).normal(size=(60, 4, 3))
        rewards = x[:, 0].sum(-1) + np.random.default_rng(1).normal(size=60)
        rows = {"x": x[:, 0].tolist(), "arm": [0] * 60, "features": x.tolist(), "reward": rewards}
        pd.DataFrame(rows).to_parquet("log.parquet")
    if config == "ratings":
        stars = np.random.default_rng(0).integers(1, 6, size=(20, 7))
        lines = [f"{user},{item},{rating}" for (user, item), rating in np.ndenumerate(stars)]
        Path("ratings.csv").write_text("\n".join(["user,item,rating", *lines]))


def _train(*extra, config="offline"):
    sizes = SIZES.get(config, SYNTHETIC)
    return main(["--config", str(ROOT / "scripts" / "configs" / f"{config}.yaml"), *TINY, *sizes, *extra])


@pytest.mark.parametrize("config", [c.stem for c in CONFIGS])
def test_every_config_trains_and_leaves_a_whole_run_folder(config, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    _write_data(config)
    model = _train(config=config)
    (run,) = (tmp_path / "lightning_logs").iterdir()
    names = {p.name.split(".")[0] for p in run.iterdir()}
    assert {"config", "checkpoints", "events"} <= names
    shown = capsys.readouterr().out
    assert f"beta {model.mean_beta:.3f} (Eq. 5's bound: {model.beta_bound:.2f})" in shown
    for baseline in ("LinUCB at Eq. 5's radius", "LinTS", "epsilon-greedy"):
        assert baseline in shown
    assert "View: tensorboard --logdir" in shown
    assert model.policy.dim == 3  # from the data
    saved = yaml.safe_load((run / "config.yaml").read_text())
    assert main(["--config", str(run / "config.yaml")]).mean_beta == model.mean_beta
    assert saved["data"]["class_path"].startswith("torch_softucb.training.")


def _stop_after_2_of_4(folder):
    keep = ["--trainer.callbacks+=lightning.pytorch.callbacks.ModelCheckpoint", "--trainer.callbacks.every_n_train_steps=2"]
    keep += [f"--trainer.callbacks.dirpath={folder}", "--trainer.callbacks.filename=here"]
    _train("--trainer.max_steps", "2", *keep)
    return str(folder / "here.ckpt")


def test_resume_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    whole = _train()
    again = _train("--resume", _stop_after_2_of_4(tmp_path))
    assert torch.equal(again.policy.raw_beta, whole.policy.raw_beta)


def test_resume_last_continues_the_interrupted_run_of_this_config_in_its_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / "lightning_logs"
    whole = _train("--resume", "last")
    assert "No interrupted run of this config: a new run." in capsys.readouterr().out
    _train()
    (runs / "version_1" / "finished").unlink()
    (runs / "version_0" / "finished").unlink()
    _train("--model.init_args.lr", "1.0")  # another config: not to be continued
    (runs / "version_2" / "finished").unlink()
    again = _train("--resume", "last")
    assert "Resuming from lightning_logs/version_1/checkpoints/last.ckpt." in capsys.readouterr().out
    assert torch.equal(again.policy.raw_beta, whole.policy.raw_beta)
    assert again.final_regret == whole.final_regret
    _train("--resume", "last")
    assert "Resuming from lightning_logs/version_0/checkpoints/last.ckpt." in capsys.readouterr().out
    assert len(list(runs.iterdir())) == 3


def test_workers_that_torchrun_restarts_go_on_without_being_asked(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    _train("--checkpoint_every", "3")
    file = tmp_path / "lightning_logs" / "version_0" / "checkpoints" / "last.ckpt"
    assert torch.load(file, weights_only=True)["global_step"] == 3  # 4 steps, a checkpoint every 3
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    _train("--checkpoint_every", "3")
    assert len(list((tmp_path / "lightning_logs").iterdir())) == 1


def _refused(capsys, match, *extra, config="offline"):
    with pytest.raises(SystemExit) as stop:
        _train(*extra, config=config)
    assert stop.value.code not in (0, None)
    assert match in capsys.readouterr().err


@pytest.mark.parametrize(
    ("extra", "match"),
    [
        (["--model.init_args.etaa", "1"], "etaa"),
        (["--data.colour", "red"], "colour"),
        (["--model.init_args.eta", "-1"], "eta must be in [0, inf), got -1.0"),
        (["--model.init_args.horizon", "0"], "horizon must be at least 1, got 0"),
        (["--model.init_args.delta", "0.2"], "delta must be in [0.5, 1), got 0.2"),
        (["--model.init_args.coldness", "warm"], "coldness must be one of"),
        (["--model.init_args.estimator", "psychic"], "estimator must be one of 'paper'"),
        (["--data.num_steps", "0"], "num_steps must be at least 1"),
        (["--data.noise_std", "-1"], "noise_std must be in"),
        (["--resume", "nowhere.ckpt"], "nowhere.ckpt"),
        (["--resume", "last", "--trainer.logger", "false"], "--resume last: trainer.logger must be"),
        (["--checkpoint_every", "0"], "checkpoint_every must be at least 1, got 0"),
        (["--data", "torch_softucb.training.NoData"], "NoData"),
    ],
)
def test_wrong_input_one_readable_error_nothing_written(extra, match, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    _refused(capsys, match, *extra)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("extra", "config", "message"),
    [
        (["--model.eta", "-1"], "offline", "train: SoftUCBOffline: eta must be in [0, inf), got -1.0\n"),
        (["--data.num_steps", "0"], "offline", "train: BanditDataModule: num_steps must be at least 1, got 0\n"),
        (
            ["--data.family.noise_std", "[-1, 2]"],
            "family",
            "train: Family: noise_std must be (low, high) with low > 0 and high not below low, got (-1.0, 2.0)\n",
        ),
    ],
)
def test_a_refused_value_is_one_line(extra, config, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        _train(*extra, config=config)
    assert capsys.readouterr().err == message


def test_wrong_checkpoints(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    saved = _stop_after_2_of_4(tmp_path)
    capsys.readouterr()
    _refused(capsys, "dim must be 3, as in the checkpoint, got 4", "--data.dim", "4", "--resume", saved)
    message = "seed must be 0, as in the checkpoint, to continue its run, got 5"
    _refused(capsys, message, "--data.seed", "5", "--resume", saved)
    (tmp_path / "short.ckpt").write_bytes((tmp_path / saved).read_bytes()[:700])
    _refused(capsys, "cut short or not a checkpoint", "--resume", "short.ckpt")
    _refused(capsys, "another type of training", "--resume", saved, config="online")
    torch.save({"raw_beta": torch.tensor(1.0)}, tmp_path / "policy.pt")
    _refused(capsys, "policy.pt: cannot be read (it does not end with a checksum", "--resume", "policy.pt")
    add_checksum(tmp_path / "policy.pt")
    _refused(capsys, "expected the checkpoint of a training run", "--resume", "policy.pt")
    assert len(list((tmp_path / "lightning_logs").iterdir())) == 1  # none of these made a folder


def test_a_checkpoint_without_its_parts_is_one_readable_error(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    saved = _stop_after_2_of_4(tmp_path)
    capsys.readouterr()
    for part, match in (
        ("loops", "has no complete record of the training loop"),
        ("hyper_parameters", "dim must be None, as in the checkpoint"),
        ("state_dict", "state_dict and hyper_parameters must be dicts by name"),
        ("pytorch-lightning_version", "expected the checkpoint of a training run"),
    ):
        state = torch.load(saved, weights_only=True)
        del state[part]
        save_checked(tmp_path / "part.ckpt", state)
        _refused(capsys, "part.ckpt: ", "--resume", "part.ckpt")
        _refused(capsys, match, "--resume", "part.ckpt")


@pytest.mark.parametrize(
    ("extra", "config", "match"),
    [
        (["--data.one_episode", "true"], "offline", "must have one_episode=False, got True"),
        (["--data.one_episode", "false"], "online", "must have one_episode=True, got False"),
        (
            ["--data.num_steps", "3"],
            "online",
            "num_steps must be horizon / rounds_per_step, 4, to play all 12 rounds, got 3",
        ),
        (["--data.trajectories", "9"], "online", "num_trajectories must be the number of trajectories of the data, (9,)"),
    ],
)
def test_data_that_do_not_fit_the_training(extra, config, match, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    _refused(capsys, match, *extra, config=config)
    assert list(tmp_path.iterdir()) == []


def test_one_arm_has_no_regret_and_no_ratio(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    _train("--data.num_arms", "1")
    assert "regret 0.0 over 12 rounds" in capsys.readouterr().out


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lightning_logs").write_text("a file where the folder should be")
    _refused(capsys, "lightning_logs")


def test_without_arguments_it_names_a_config_to_begin_with(capsys):
    with pytest.raises(SystemExit, match="2"):
        main([])
    shown = capsys.readouterr().err
    assert len(shown.splitlines()) == 3
    for name in ("offline", "problem", "ratings"):
        assert f"{name}.yaml" in shown
        assert ROOT / "scripts" / "configs" / f"{name}.yaml" in CONFIGS


def test_data_of_another_class_by_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain = _train()
    (tmp_path / "data.yaml").write_text("class_path: torch_softucb.training.BanditDataModule\ninit_args:\n  dim: 3\n")
    model = main(["--model", "SoftUCBOffline", "--model.lr", "5.0", "--data", "data.yaml", "--data.num_arms", "6", *TINY])
    assert model.mean_beta == plain.mean_beta


def test_data_without_a_class_show_what_is_expected(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    hint = "data must name its class: {class_path: torch_softucb.training.BanditDataModule"
    for text, match in (("num_arms: 6\ndim: 3\n", hint), ("num_steps: 4\n", "EpisodeDataModule: expected a subclass")):
        (tmp_path / "data.yaml").write_text(text)
        with pytest.raises(SystemExit, match="2"):
            main(["--model", "SoftUCBOffline", "--data", "data.yaml"])
        assert match in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["--model", "SoftUCBOffline"])
    assert "required: data" in capsys.readouterr().err


def test_a_family_needs_one_number_of_features(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    _refused(capsys, "all members must have the same number of features", "--data.family.dim", "[3, 5]", config="family")
    assert list(tmp_path.iterdir()) == []


def test_help_and_print_config(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    assert "--resume" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="0"):
        main(["--model.help", "torch_softucb.training.SoftUCBOffline"])
    assert "weight of the constraint" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="0"):
        main(["--config", str(CONFIGS[0]), "--print_config"])
    assert "fresh_problems" in capsys.readouterr().out
