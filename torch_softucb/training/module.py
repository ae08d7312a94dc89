"""Base class of offline and online training: policy, optimiser, logging, validation, checkpoints."""

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.checks import check_integer, check_number
from torch_softucb.errors import BetaWarning
from torch_softucb.learning.dual import Dual
from torch_softucb.learning.episode import Episode
from torch_softucb.policies import BanditPolicy, SoftUCBPolicy
from torch_softucb.policies.state_checks import check_parameters
from torch_softucb.simulation._checks import check_compile, check_same_world
from torch_softucb.training._checks import check_checkpoint_dim, check_checkpoint_state, check_episodes
from torch_softucb.training.batches import as_episode
from torch_softucb.training.checkpoint import CheckedModule
from torch_softucb.training.data import EpisodeDataModule, planned_steps
from torch_softucb.training.validation import OWN, RegretCurves, baselines, gather_trajectories, join_curves, validation_row

RECORDED = ("gamma", "num_suboptimal", "entropy", "coverage", "probs", "beta")


class SoftUCBModule(CheckedModule):
    """Base class of the two trainers. It owns the policy and the settings of its objective.

    Args:
        policy: the policy that plays and learns.
        horizon: T.
        eta: weight of the constraint, or the dual variable that adapts it.
        lr: learning rate of the default optimiser.
        theory: ``subgaussian_r`` and ``fail_prob`` of Eq. 5, for the bound and the baselines.
        factories: functions that build the optimiser and the scheduler; None takes the default.
        compile: backend; see rollout.
    """

    policy: SoftUCBPolicy
    played_beta: Tensor

    def __init__(
        self,
        policy: SoftUCBPolicy,
        *,
        horizon: int,
        eta: float | Dual,
        lr: float,
        theory: Mapping[str, float],
        factories: tuple[OptimizerCallable | None, LRSchedulerCallable | None],
        compile: bool | str,
    ) -> None:
        super().__init__()
        where = type(self).__name__
        self.policy = policy
        self.horizon = check_integer(where, "horizon", horizon, low=1)
        self.eta = eta if isinstance(eta, Dual) else check_number(where, "eta", eta, low=0.0)
        self.lr = check_number(where, "lr", lr, low=0.0, open_low=True)
        check_compile(where, compile)
        self.compile_rounds = compile  # `compile` is a method of LightningModule
        self.make_optimizer, self.make_scheduler = factories
        self.theory: dict[str, Any] = {**theory, "horizon": self.horizon}
        self.beta_bound = F.beta_upper_bound(dim=policy.dim, ridge_alpha=policy.ridge_alpha, **self.theory)
        self.last_probs: Tensor | None = None  # for the dashboard's histogram
        self.curves: dict[str, Tensor] = {}  # name -> (T, B) cumulative regret of the last validation
        self._regret_curves = RegretCurves()
        self._validated = -1
        self._warned = False
        # mean over the last step's rounds when beta is a module; -1 before the first step
        self.register_buffer("played_beta", torch.full((), -1.0))

    def configure_optimizers(self) -> Any:
        """Return the optimiser; SGD by default for the paper's estimators, whose step is beta <- beta + lr g_hat."""
        if self.make_optimizer is None:
            # count the steps only where they are needed: counting may open a loader
            optimizer = self.default_optimizer(planned_steps(self.trainer) if self.needs_steps else None)
        else:
            optimizer = self.make_optimizer(self.policy.parameters())
        scheduler = self.default_scheduler(optimizer) if self.make_scheduler is None else self.make_scheduler(optimizer)
        if scheduler is None:
            return optimizer
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    @property
    def needs_steps(self) -> bool:
        """Whether the default optimiser depends on the number of steps."""
        return False

    def default_optimizer(self, steps: int | None = None) -> torch.optim.Optimizer:
        """Build the optimiser that is used when none is given, for a run of ``steps`` steps."""
        return torch.optim.SGD(self.policy.parameters(), lr=self.lr)

    def default_scheduler(self, optimizer: torch.optim.Optimizer) -> Any:
        """Build the scheduler that is used when none is given; None keeps the rate constant."""
        return None

    @property
    def present_eta(self) -> float:
        """Current weight of the constraint."""
        return self.eta.eta if isinstance(self.eta, Dual) else self.eta

    @property
    def mean_beta(self) -> float:
        """Current beta, averaged over trajectories; for a beta module, the mean over the last step's rounds."""
        module = self.policy.beta_module
        if module is None:
            return float(self.policy.beta.detach().mean())
        played = float(self.played_beta)
        return module.typical if played < 0 or not self.policy.one_for_all else played

    @torch.no_grad()
    def frozen_policy(self) -> SoftUCBPolicy:
        """Return a policy to play with, at the current beta (online: the mean over trajectories) and delta."""
        module = self.policy.beta_module if self.policy.one_for_all else None
        return self.policy.with_beta(self.mean_beta if module is None else module)

    def baselines(self) -> dict[str, BanditPolicy]:
        """Return the policies that validation compares with."""
        return baselines(self.policy, beta=self.mean_beta, theory=self.theory)

    def on_validation_model_eval(self) -> None:
        """Keep the training mode: the policy has no separate evaluation mode."""

    def on_validation_model_train(self) -> None:
        """Keep the training mode: the policy has no separate evaluation mode."""

    def evaluate(self, episode: Episode) -> dict[str, Tensor]:
        """Return regret curves ``(T, B)`` of SoftUCB, beta frozen, and of the baselines, on the same problems and noise."""
        policies = {OWN: self.frozen_policy(), **self.baselines()}
        return self._regret_curves.play(policies, episode, horizon=self.horizon, compile=self.compile_rounds)

    def episode_of(self, batch: object, stage: str, number: int) -> Episode:
        """Return a batch of any loader as an episode that this policy can play."""
        where = type(self).__name__
        episode = as_episode(where, batch, stage, number=number, rank=self.global_rank)
        check_same_world(where, "dim", self.policy.dim, "data", episode.problem.dim)
        return episode

    def validation_step(self, batch: object, batch_idx: int) -> None:
        """Play SoftUCB and the baselines on held-out problems."""
        self._validate(self.episode_of(batch, "validate", batch_idx), batch_idx)

    def on_validation_epoch_end(self) -> None:
        """Log the regret of SoftUCB and of the baselines over all batches."""
        self.log_row(validation_row(self.curves), batch_size=1)

    def test_step(self, batch: object, batch_idx: int) -> None:
        """Play SoftUCB and the baselines on the test problems."""
        self._validate(self.episode_of(batch, "test", batch_idx), batch_idx)

    def on_test_epoch_end(self) -> None:
        """Log the quantities of validation under ``test/``."""
        row = {name.replace("validation/", "test/"): value for name, value in validation_row(self.curves).items()}
        self.log_row(row, batch_size=1)

    def _validate(self, episode: Episode, number: int) -> None:
        """Play the ``number``-th batch of a validation and add its curves to those of the batches before."""
        curves = self.evaluate(episode)
        if self.trainer.world_size > 1:
            curves = gather_trajectories(curves, self.all_gather)
        self.curves = join_curves(self.curves, curves) if number else curves
        self._validated = self.global_step

    def log_row(self, values: dict[str, Any], *, batch_size: int) -> None:
        """Log values against this trainer's x-axis; with several processes, their mean."""
        # Lightning reads the x-axis of a row from the metric named "step"
        row = {"step": float(self.axis_value), **{name: float(value) for name, value in values.items()}}
        several = self.trainer.world_size > 1
        if several and self.trainer.training:  # all numbers in one message; sync_dist would send one message each
            numbers = torch.tensor(list(row.values()), dtype=torch.float64, device=self.device)
            row = dict(zip(row, self.trainer.strategy.reduce(numbers, reduce_op="mean").tolist(), strict=True))
            several = False
        self.log_dict(row, batch_size=batch_size, sync_dist=several)

    def check_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Raise if this module cannot continue from the checkpoint."""
        where, state = type(self).__name__, checkpoint["state_dict"]
        check_checkpoint_state(where, self.state_dict().keys(), state.keys())
        check_checkpoint_dim(where, self.policy.dim, checkpoint.get("hyper_parameters", {}).get("dim"))
        self.policy.check_state(state, prefix="policy.")
        check_parameters(where, self, state, skip=("policy.statistics",))

    def check_data(self, data: EpisodeDataModule) -> None:
        """Raise if these data do not fit this trainer."""
        check_episodes(type(self).__name__, data.one_episode, wanted=False)
        check_same_world(type(self).__name__, "dim", self.policy.dim, "data", data.dim)

    def setup(self, stage: str) -> None:
        """Check the data before the first step."""
        data = getattr(self.trainer, "datamodule", None)
        if stage == "fit" and isinstance(data, EpisodeDataModule):
            self.check_data(data)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Save the position on the x-axis, from which a resumed run continues its curves."""
        checkpoint["axis_value"] = self.axis_value

    def on_train_start(self) -> None:
        """Validate if the checkpoint is that of the last step, after which there is no epoch to end."""
        if self.trainer.fit_loop.done:
            self.on_train_epoch_end()

    def on_train_epoch_end(self) -> None:
        """Validate the final beta, if training continued after the last validation."""
        data = getattr(self.trainer, "datamodule", None)
        if not self.trainer.enable_validation or self._validated == self.global_step or data is None:
            return
        for number, batch in enumerate(data.val_dataloader()):
            self._validate(self.episode_of(batch, "validate", number).to(self.device), number)
        if self.logger is not None:
            self.logger.log_metrics(validation_row(self.curves), step=self.axis_value)

    @property
    def rounds_played(self) -> int:
        """Number of rounds behind :attr:`final_regret`."""
        return self.horizon

    @property
    def final_regret(self) -> float | None:
        """Mean regret of SoftUCB with frozen beta in the last validation; None before the first."""
        return float(self.curves[OWN][-1].mean()) if self.curves else None

    @property
    def axis_value(self) -> int:
        """Current position on the x-axis of TensorBoard."""
        raise AttributeError(f"{type(self).__name__} must define axis_value, its position on the x-axis")

    def warn_if_running_away(self) -> None:
        """Warn once if beta has grown beyond its theoretical bound."""
        beta = self.mean_beta
        if beta > self.beta_bound and not self._warned:
            self._warned = True
            warnings.warn(
                f"{type(self).__name__}: beta is {beta:.2f}, above its Eq. 5 bound {self.beta_bound:.2f}, and may grow "
                f"without bound: the penalty outweighs the reward. Lower eta (now {self.present_eta:g}) or lr (now "
                f"{self.lr:g}).",
                BetaWarning,
                stacklevel=2,
            )
