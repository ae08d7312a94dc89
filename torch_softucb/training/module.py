"""What offline and online training share: a policy, settings, validation against rivals."""

import math
import warnings
from typing import Any

import lightning as L
import torch
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.checks import check_integer, check_number
from torch_softucb.errors import BetaWarning
from torch_softucb.learning.dual import Dual
from torch_softucb.learning.episode import Episode
from torch_softucb.policies import BanditPolicy, EpsilonGreedy, LinTS, LinUCB, SoftUCBPolicy
from torch_softucb.simulation._checks import check_compile, check_same_world
from torch_softucb.training._checks import check_checkpoint_dim, check_checkpoint_kind, check_episodes
from torch_softucb.training.data import BanditDataModule, planned_steps

RECORDED = ("gamma", "num_suboptimal", "entropy", "coverage", "probs", "beta")


class SoftUCBModule(L.LightningModule):
    """Base of the two trainers; owns the policy and the settings of its objective."""

    policy: SoftUCBPolicy
    played_beta: Tensor
    relative = False  # is RelativeAdam, which wants to know the number of steps, its default optimiser?

    def __init__(
        self,
        policy: SoftUCBPolicy,
        *,
        horizon: int,
        eta: float | Dual,
        lr: float,
        subgaussian_r: float,
        fail_prob: float,
        optimizer: OptimizerCallable | None,
        scheduler: LRSchedulerCallable | None,
        compile: bool | str,
    ) -> None:
        super().__init__()
        where = type(self).__name__
        self.policy = policy
        self.horizon = check_integer(where, "horizon", horizon, low=1)
        self.eta = eta if isinstance(eta, Dual) else check_number(where, "eta", eta, low=0.0)
        self.lr = check_number(where, "lr", lr, low=0.0, open_low=True)
        check_compile(where, compile)
        self.compile_rounds = compile  # LightningModule has a compile of its own
        self.make_optimizer, self.make_scheduler = optimizer, scheduler
        self.theory = {"subgaussian_r": subgaussian_r, "fail_prob": fail_prob, "horizon": self.horizon}
        self.beta_bound = F.beta_upper_bound(dim=policy.dim, ridge_alpha=policy.ridge_alpha, **self.theory)
        self.last_probs: Tensor | None = None  # for the dashboard's histogram
        self.curves: dict[str, Tensor] = {}  # name -> (T, B) cumulative regret of the last validation
        self._played: dict[tuple[str, int, int], Tensor] = {}  # the same, this process's share, by episode
        self._validated = -1
        self._warned = False
        # mean over the last step's rounds, of a beta that is a module; -1 before the first
        self.register_buffer("played_beta", torch.full((), -1.0))

    def configure_optimizers(self) -> Any:
        """SGD by default for the paper's estimators, so that a step is the paper's beta <- beta + lr g_hat."""
        if self.make_optimizer is None:
            optimizer = self.default_optimizer(planned_steps(self.trainer) if self.relative else None)
        else:
            optimizer = self.make_optimizer(self.policy.parameters())
        scheduler = self.default_scheduler(optimizer) if self.make_scheduler is None else self.make_scheduler(optimizer)
        if scheduler is None:
            return optimizer
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def default_optimizer(self, steps: int | None = None) -> torch.optim.Optimizer:
        """For so many steps, if that is known."""
        return torch.optim.SGD(self.policy.parameters(), lr=self.lr)

    def default_scheduler(self, optimizer: torch.optim.Optimizer) -> Any:
        """A constant rate."""
        return None

    @property
    def present_eta(self) -> float:
        return self.eta.eta if isinstance(self.eta, Dual) else self.eta

    @property
    def mean_beta(self) -> float:
        module = self.policy.beta_module
        if module is None:
            return float(self.policy.beta.detach().mean())
        played = float(self.played_beta)
        return module.typical if played < 0 or not self.policy.one_for_all else played

    @torch.no_grad()
    def frozen_policy(self) -> SoftUCBPolicy:
        """A policy to play with: beta as it is now (online: the mean of the trajectories'), delta too."""
        own = self.policy
        module = own.beta_module if own.one_for_all else None
        return SoftUCBPolicy(
            own.dim,
            beta_init=self.mean_beta if module is None else module,
            delta=float(own.delta),
            ridge_alpha=own.ridge_alpha,
            coldness=own.coldness,
            smoothing=own.smoothing,
            device=own.device,
            dtype=own.dtype,
        )

    def baselines(self) -> dict[str, BanditPolicy]:
        dim, alpha = self.policy.dim, self.policy.ridge_alpha
        kind: dict[str, Any] = {"ridge_alpha": alpha, "device": self.policy.device, "dtype": self.policy.dtype}
        return {
            "lin_ucb_bound": LinUCB.theoretical(dim, **self.theory, **kind),  # type: ignore[arg-type]
            "lin_ucb_same_beta": LinUCB(dim, beta=self.mean_beta, **kind),
            "lin_ts": LinTS.theoretical(dim, **self.theory, **kind),  # type: ignore[arg-type]
            "epsilon_greedy": EpsilonGreedy(dim, epsilon=0.05, **kind),
        }

    def on_validation_model_eval(self) -> None:
        """Nothing to switch: the policy has no train mode."""

    def on_validation_model_train(self) -> None:
        """See above."""

    def evaluate(self, episode: Episode) -> dict[str, Tensor]:
        """Cumulative regret curves (T, B) of SoftUCB with beta frozen and of its rivals: same problems, same noise."""
        curves = {}
        for name, policy in {"soft_ucb": self.frozen_policy(), **self.baselines()}.items():
            key = (name, episode.noise_seed, episode.action_seed)
            if name not in ("soft_ucb", "lin_ucb_same_beta") and key in self._played:
                curves[name] = self._played[key]  # does not depend on beta: played once
                continue
            played = episode.play(policy, horizon=self.horizon, compile=self.compile_rounds)
            curves[name] = self._played[key] = played.cumulative_regret
        return curves

    def validation_step(self, episode: Episode, batch_idx: int) -> None:
        self.log_row(self._validate(episode), batch_size=episode.problem.batch_shape.numel())

    def test_step(self, episode: Episode, batch_idx: int) -> None:
        row = self._validate(episode)
        row = {name.replace("validation/", "test/"): value for name, value in row.items()}
        self.log_row(row, batch_size=episode.problem.batch_shape.numel())

    def _validate(self, episode: Episode) -> dict[str, float]:
        curves = self.evaluate(episode)
        if self.trainer.world_size > 1:  # every process has played its share
            curves = {name: torch.cat(list(self.all_gather(curve)), dim=1) for name, curve in curves.items()}
        self.curves, self._validated = curves, self.global_step
        last = curves["soft_ucb"][-1]
        mean, band = float(last.mean()), 1.96 * float(last.std(correction=0)) / math.sqrt(len(last))
        baselines = {f"validation/{name}": float(curve[-1].mean()) for name, curve in curves.items()}
        return baselines | {"validation/soft_ucb_low": mean - band, "validation/soft_ucb_high": mean + band}

    def log_row(self, values: dict[str, Any], *, batch_size: int) -> None:
        """Log under the x-axis of this kind of training; with several processes, the mean of their shares."""
        row = {"step": float(self.axis_value), **{name: float(value) for name, value in values.items()}}
        several = self.trainer.world_size > 1
        if several and self.trainer.training:  # all numbers in one message; sync_dist would send one each
            numbers = torch.tensor(list(row.values()), dtype=torch.float64, device=self.device)
            row = dict(zip(row, self.trainer.strategy.reduce(numbers, reduce_op="mean").tolist(), strict=True))
            several = False
        self.log_dict(row, batch_size=batch_size, sync_dist=several)

    def check_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Can this module go on from it?"""
        where = type(self).__name__
        check_checkpoint_kind(where, self.state_dict().keys(), checkpoint["state_dict"].keys())
        check_checkpoint_dim(where, self.policy.dim, checkpoint["hyper_parameters"]["dim"])

    def check_data(self, data: BanditDataModule) -> None:
        """Do these data fit this kind of training?"""
        check_episodes(type(self).__name__, data.one_episode, wanted=False)
        check_same_world(type(self).__name__, "dim", self.policy.dim, "data", data.dim)

    def setup(self, stage: str) -> None:
        data = getattr(self.trainer, "datamodule", None)
        if stage == "fit" and isinstance(data, BanditDataModule):
            self.check_data(data)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.check_checkpoint(checkpoint)

    def on_train_epoch_end(self) -> None:
        """The last word is about the last beta: validate once more if training went on after the last validation."""
        data = getattr(self.trainer, "datamodule", None)
        if not self.trainer.enable_validation or self._validated == self.global_step or data is None:
            return
        row = self._validate(next(iter(data.val_dataloader())).to(self.device))
        if self.logger is not None:
            self.logger.log_metrics(row, step=self.axis_value)

    @property
    def rounds_played(self) -> int:
        """Of the regret that :attr:`final_regret` speaks of."""
        return self.horizon

    @property
    def final_regret(self) -> float | None:
        """Of SoftUCB with beta frozen, in the last validation; None before the first."""
        return float(self.curves["soft_ucb"][-1].mean()) if self.curves else None

    @property
    def axis_value(self) -> int:
        raise AttributeError(f"{type(self).__name__} must say where on its x-axis it is")

    def warn_if_running_away(self) -> None:
        beta = self.mean_beta
        if beta > self.beta_bound and not self._warned:
            self._warned = True
            warnings.warn(
                f"{type(self).__name__}: beta is {beta:.2f}, above its Eq. 5 bound {self.beta_bound:.2f}, and may grow "
                f"without end: the penalty outweighs the reward. Lower eta (now {self.present_eta:g}) or lr (now "
                f"{self.lr:g}).",
                BetaWarning,
                stacklevel=2,
            )
