"""SoftUCB offline (Algorithm 2): beta moves after every batch of whole trajectories."""

from typing import Any

import torch
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from torch_softucb.checks import check_choice
from torch_softucb.learning.dual import Dual
from torch_softucb.learning.episode import Episode
from torch_softucb.learning.estimators.paper import ESTIMATORS, mean_record
from torch_softucb.learning.log_adam import RelativeAdam
from torch_softucb.policies import SoftUCBPolicy
from torch_softucb.policies.beta.base import BetaModule
from torch_softucb.training.data import planned_steps
from torch_softucb.training.module import RECORDED, SoftUCBModule

_RATES = {"paper": 5.0, "auto": 0.25}  # with SGD; the other estimators take RelativeAdam


class SoftUCBOffline(SoftUCBModule):
    """Learns one beta from whole trajectories: one step plays a batch and climbs Eq. 13, averaged.

    Args:
        dim: d.
        horizon: T, rounds of a trajectory.
        eta: weight of the constraint |mu - mu_hat| <= beta width; where beta settles depends on it. ``auto`` makes it a dual
            variable that finds the beta of ``target_coverage``. Only ``paper`` looks at it.
        lr: learning rate of the default optimiser. Default 5 with SGD for ``paper`` (the gradient is that of a round,
            divided by T); 0.25 with SGD, falling to a fifth, for ``eta="auto"``; 0.3 with RelativeAdam (shares of
            beta), falling to 0, for the other estimators. A module's parameters have RelativeAdam and the module's own
            rate (0.3 for segments, 0.1 for a schedule, 0.02 for a network), with ``paper`` at a constant rate.
        beta_init: where beta starts: a number, or a BetaModule (a schedule over t / T, a network over the situation), whose
            T becomes this one.
        delta: Eq. 9's delta.
        learn_delta: learn delta too (not with ``paper``, which holds gamma constant).
        ridge_alpha: ridge weight.
        coldness: ``current``, ``lagged`` or ``smooth``.
        estimator: how trajectories become a gradient: ``paper`` is Eq. 13; ``trajectory`` the score-function gradient of
            the whole trajectory's reward (use it with ``smooth``); ``common_random_numbers`` central differences.
        target_coverage: for ``eta="auto"``: the share of arms and rounds in which the constraint is to hold.
        subgaussian_r: R of Eq. 5, for the bound and the baselines.
        fail_prob: failure probability of Eq. 5, likewise.
        optimizer: another torch optimiser; parameters in, optimiser out.
        scheduler: a learning rate scheduler; optimiser in, scheduler out.
        compile: play under torch.compile (true) or in the C++ kernel (native); see rollout.
    """

    def __init__(
        self,
        *,
        dim: int = 10,
        horizon: int = 1024,
        eta: float | str = 0.002,
        lr: float | None = None,
        beta_init: float | BetaModule = 1.0,
        delta: float = 0.99,
        learn_delta: bool = False,
        ridge_alpha: float = 1.0,
        coldness: str = "current",
        estimator: str = "paper",
        target_coverage: float = 0.85,
        subgaussian_r: float = 0.5,
        fail_prob: float = 0.01,
        optimizer: OptimizerCallable | None = None,
        scheduler: LRSchedulerCallable | None = None,
        compile: bool | str = False,
    ) -> None:
        if isinstance(beta_init, BetaModule):
            beta_init = beta_init.for_horizon(horizon)
        kind: dict[str, Any] = {"delta": delta, "ridge_alpha": ridge_alpha, "coldness": coldness}
        policy = SoftUCBPolicy(dim, beta_init=beta_init, learn_delta=learn_delta, **kind)
        check_choice("SoftUCBOffline", "estimator", estimator, ESTIMATORS)
        if isinstance(eta, str):
            check_choice("SoftUCBOffline", "eta", eta, ("auto",))
        self.kind = estimator if estimator != "paper" else ("auto" if eta == "auto" else "paper")
        super().__init__(
            policy,
            horizon=horizon,
            eta=Dual(target_coverage) if isinstance(eta, str) else eta,
            lr=(_RATES.get(self.kind, 0.3) if policy.beta_module is None else policy.beta_module.lr) if lr is None else lr,
            subgaussian_r=subgaussian_r,
            fail_prob=fail_prob,
            optimizer=optimizer,
            scheduler=scheduler,
            compile=compile,
        )
        self.estimator = ESTIMATORS[estimator]
        self.register_buffer("trajectories_played", torch.zeros((), dtype=torch.int64))
        module = policy.beta_module is not None  # its weights are in the state
        self.save_hyperparameters(ignore=["optimizer", "scheduler", *(["beta_init"] if module else [])])

    trajectories_played: Tensor

    @property
    def axis_value(self) -> int:
        return int(self.trajectories_played)

    @property
    def relative(self) -> bool:  # type: ignore[override]
        return self.kind not in _RATES or self.policy.beta_module is not None

    def default_optimizer(self, steps: int | None = None) -> torch.optim.Optimizer:
        if not self.relative:
            return super().default_optimizer()
        return RelativeAdam.of(self.policy, lr=self.lr, steps=steps)

    def default_scheduler(self, optimizer: torch.optim.Optimizer) -> Any:
        if self.kind == "paper" or self.make_optimizer is not None:
            return None
        steps = planned_steps(self.trainer)
        if self.kind == "auto":
            return torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.2, total_iters=steps)
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)

    def training_step(self, episode: Episode, batch_idx: int) -> Tensor:
        beta = self.mean_beta
        signal = self.estimator(
            self.policy, episode, horizon=self.horizon, eta=self.eta, record=RECORDED, compile=self.compile_rounds
        )
        count = episode.problem.batch_shape.numel()
        self.trajectories_played += count * self.trainer.world_size
        played = signal.trajectory
        self.last_probs = played.records["probs"][-1]
        regret = played.regret.sum(0).mean()
        if self.policy.beta_module is not None:
            self.played_beta.copy_(mean_record(played, "beta"))
            beta = float(self.played_beta)
        self.log_row(
            {
                "regret/cumulative": regret,
                "regret/per_round": regret / self.horizon,
                "policy/beta": beta,
                "policy/beta_bound": self.beta_bound,
                "policy/eta": self.present_eta,
                **{f"policy/{name}": mean_record(played, name) for name in RECORDED if name not in ("probs", "beta")},
                "grad/reward": signal.reward_gradient,
                "grad/penalty": signal.penalty_gradient,
                "loss/objective": -signal.loss.detach(),
            },
            batch_size=count,
        )
        self.log_dict({"beta": beta, "regret": float(regret)}, prog_bar=True, logger=False, batch_size=count)
        return signal.loss

    def optimizer_step(self, *args: Any, **kind: Any) -> None:
        """Here and not at the end of the batch: checkpoints are written before the module hears of that."""
        super().optimizer_step(*args, **kind)
        self.policy.project_()
        if isinstance(self.eta, Dual):
            self.eta.step()

    def on_train_batch_end(self, *_: object) -> None:
        self.warn_if_running_away()
