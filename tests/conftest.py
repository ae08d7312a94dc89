import logging

import pytest

from torch_softucb.training import BanditDataModule, trainer_for
from torch_softucb.training.trainer import quiet


@pytest.fixture(autouse=True)
def _quiet():
    quiet()
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


@pytest.fixture
def tiny():
    """A data module of small problems; keyword arguments override."""
    return lambda **kind: BanditDataModule(
        **({"num_arms": 6, "dim": 3, "trajectories": 8, "num_steps": 6, "eval_trajectories": 8} | kind)
    )


@pytest.fixture
def fit(tmp_path):
    """Train without a progress bar; logs under the test's own folder."""

    def run(model, data, resume=None, **kind):
        quick = {"enable_progress_bar": False, "callbacks": [], "enable_checkpointing": False, "val_check_interval": 1.0}
        trainer = trainer_for(tmp_path / "logs", **(quick | kind))
        trainer.fit(model, datamodule=data, ckpt_path=resume, weights_only=True)
        return trainer

    return run


@pytest.fixture(autouse=True)
def _warnings_are_given_again(monkeypatch):
    """A CompileWarning appears once per process and reason; every test starts without any."""
    monkeypatch.setattr("torch_softucb.simulation.backends.base._WARNED", set())
