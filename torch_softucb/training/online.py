"""SoftUCB online (Algorithm 3): beta moves after every round, within the trajectory that it plays."""

from typing import Any

import torch
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from torch_softucb import functional as F
from torch_softucb.checks import check_choice, check_integer
from torch_softucb.learning.dual import OnlineDual
from torch_softucb.learning.episode import Episode
from torch_softucb.learning.online import OnlineStep, online_step
from torch_softucb.policies import SoftUCBPolicy
from torch_softucb.simulation._checks import check_same_world
from torch_softucb.simulation.engine import Round, Simulation
from torch_softucb.training._checks import (
    check_episodes,
    check_not_played,
    check_one_episode,
    check_one_process,
    check_whole_horizon,
)
from torch_softucb.training.data import EpisodeDataModule
from torch_softucb.training.module import SoftUCBModule


class SoftUCBOnline(SoftUCBModule):
    """Let every trajectory learn its own beta while it plays, by Eq. 15 after every round.

    A training step covers ``rounds_per_step`` rounds of all trajectories, so that Lightning's cost per step does not matter.

    Args:
        num_trajectories: trajectories in this process, each with its own beta.
        dim: d.
        horizon: T.
        rounds_per_step: rounds per training step.
        eta: weight of the constraint. ``auto`` makes it a dual variable, one per trajectory, that finds the beta of
            ``target_coverage`` from the rewards alone. It needs the decision of every round, and such rounds are played
            eagerly whatever ``compile`` is. A run takes 1.7 times as long as with a fixed eta and ``compile="native"``.
        lr: learning rate of the default optimiser, SGD. With ``auto`` a step is at most lr times the size of beta and of the
            estimates' errors.
        beta_init: initial beta of every trajectory; from 0, play stays uniform for a long time (D8). With ``auto`` it counts
            as much as one reward of an arm of width 1.
        delta: delta of Eq. 9.
        ridge_alpha: ridge weight.
        coldness: ``current``, ``lagged`` or ``smooth``.
        target_coverage: for ``eta="auto"``: the fraction of arms and rounds for which |mu - mu_hat| <= beta width should
            hold.
        subgaussian_r: R of Eq. 5, for the bound and the baselines.
        fail_prob: failure probability of Eq. 5, for the bound and the baselines.
        optimizer: another torch optimiser, as a function of the parameters.
        scheduler: a learning rate scheduler, stepped once per training step.
        compile: play under torch.compile (true) or in the C++ kernel (native); see rollout.
    """

    past: Tensor
    regrets: Tensor
    value: Tensor

    def __init__(
        self,
        *,
        num_trajectories: int = 256,
        dim: int = 10,
        horizon: int = 1024,
        rounds_per_step: int = 32,
        eta: float | str = 1.0,
        lr: float = 0.1,
        beta_init: float = 1.0,
        delta: float = 0.99,
        ridge_alpha: float = 1.0,
        coldness: str = "current",
        target_coverage: float = 0.85,
        subgaussian_r: float = 0.5,
        fail_prob: float = 0.01,
        optimizer: OptimizerCallable | None = None,
        scheduler: LRSchedulerCallable | None = None,
        compile: bool | str = False,
    ) -> None:
        count = check_integer("SoftUCBOnline", "num_trajectories", num_trajectories, low=1)
        policy = SoftUCBPolicy(
            dim,
            beta_init=torch.full((count,), float(beta_init)),
            delta=delta,
            ridge_alpha=ridge_alpha,
            coldness=coldness,
        )
        if isinstance(eta, str):
            check_choice("SoftUCBOnline", "eta", eta, ("auto",))
        super().__init__(
            policy,
            horizon=horizon,
            eta=OnlineDual(target_coverage, beta=policy.beta) if isinstance(eta, str) else eta,
            lr=lr,
            theory={"subgaussian_r": subgaussian_r, "fail_prob": fail_prob},
            factories=(optimizer, scheduler),
            compile=compile,
        )
        self.rounds_per_step = check_integer("SoftUCBOnline", "rounds_per_step", rounds_per_step, low=1)
        self.automatic_optimization = False
        self.register_buffer("past", torch.zeros(count))  # running sum of reward gradients, D10
        self.register_buffer("regrets", torch.zeros(self.horizon, count))
        self.register_buffer("value", torch.zeros(count))  # running sum of estimated rewards, Eq. 14
        self.simulation: Simulation | None = None
        self._saved: dict[str, Any] | None = None
        self._rounds = 0
        self.save_hyperparameters(ignore=["optimizer", "scheduler"])

    @property
    def axis_value(self) -> int:
        """Rounds played so far."""
        return self.rounds_played

    @property
    def rounds_played(self) -> int:
        """Rounds played so far."""
        return self._rounds

    def check_data(self, data: EpisodeDataModule) -> None:
        """Raise unless the data are one episode that lasts for the whole horizon."""
        where = "SoftUCBOnline"
        check_episodes(where, data.one_episode, wanted=True)
        check_same_world(where, "dim", self.policy.dim, "data", data.dim)
        check_one_episode(where, torch.Size([data.trajectories]), self.policy.raw_beta.shape)
        check_whole_horizon(where, self.rounds_per_step, data.num_steps, self.horizon)

    def episode_of(self, batch: object, stage: str, number: int) -> Episode:
        """Return a batch as the one episode of this run, which every stage plays."""
        episode = super().episode_of(batch, "train", 0)
        check_one_episode("SoftUCBOnline", episode.problem.batch_shape, self.policy.raw_beta.shape)
        return episode

    def setup(self, stage: str) -> None:
        """Check data and processes before the first step."""
        super().setup(stage)
        if stage == "fit":
            check_one_process("SoftUCBOnline", self.trainer.world_size)
            check_not_played("SoftUCBOnline", self._rounds, self.horizon)

    @property
    def final_regret(self) -> float:
        """Mean cumulative regret of the run itself, while it learned."""
        return float(self.regret.mean())

    @property
    def regret(self) -> Tensor:  # (B,)
        """Cumulative regret of every trajectory so far."""
        return self.regrets.sum(0)

    @property
    def curve(self) -> Tensor:  # (T, B)
        """Cumulative regret of the run, round by round."""
        return self.regrets.cumsum(0)

    def _open(self, episode: Episode) -> Simulation:
        if self.simulation is None:
            noise, action = episode.generators(self.policy.device)
            self.simulation = Simulation(
                self.policy,
                episode.problem,
                generator=action,
                noise_generator=noise,
                start=episode.start,
                gradient=True,
                discount=episode.discount,
                compile=self.compile_rounds,
            )
            if self._saved is not None:
                self.simulation.load_state_dict(self._saved)
        return self.simulation

    @torch.no_grad()
    def training_step(self, batch: object, batch_idx: int) -> None:
        """Play the next rounds and move beta after each."""
        simulation = self._open(self.episode_of(batch, "train", 0))
        optimizer = self.optimizers()
        end, every = min(simulation.t + self.rounds_per_step, self.horizon), isinstance(self.eta, OnlineDual)
        for play in simulation.play(end - simulation.t, recorded=lambda t: every or t + 1 == end, stretch=1):
            step = self._learn(play)
            last = play.t + 1 == end
            # Lightning counts the steps taken through its wrapper; it should count one per training step
            (optimizer if last else optimizer.optimizer).step()  # type: ignore[union-attr]
            self.policy.project_()
            if last:
                self._rounds = end
                self._log_round(play, step)
        schedulers = self.lr_schedulers()
        if schedulers is not None:
            schedulers.step()  # type: ignore[union-attr]
        self.warn_if_running_away()

    def _learn(self, play: Round) -> OnlineStep:
        """Write Eq. 15 of this round to the gradient of the raw beta."""
        terms = play.gradient
        assert terms is not None
        self.regrets[play.t] = play.regret[0]
        self.value += terms.value
        if isinstance(self.eta, OnlineDual):
            self._observe(self.eta, play)
        step = online_step(
            self.policy.beta,
            terms.reward,
            self.past,
            terms.penalty,
            t=play.t + 1,
            horizon=self.horizon,
            eta=self.eta if isinstance(self.eta, OnlineDual) else self.present_eta,
        )
        self.past.copy_(step.past)
        raw = self.policy.raw_beta
        raw.grad = F.nonnegative_gradient(raw, -step.gradient)
        return step

    def _observe(self, dual: OnlineDual, play: Round) -> None:
        assert play.decision is not None
        assert play.arm is not None
        assert play.reward is not None
        arm = play.arm.unsqueeze(-1)
        mu_hat, width = (value.gather(-1, arm).squeeze(-1) for value in (play.decision.mu_hat, play.decision.width))
        dual.observe(mu_hat, width, play.reward)

    def _log_round(self, play: Round, step: OnlineStep) -> None:
        decision, t = play.decision, play.t + 1
        assert self.simulation is not None
        assert decision is not None
        assert decision.gamma is not None
        assert decision.beta is not None
        assert play.gradient is not None
        beta = self.policy.beta
        mask = self.simulation.present_mask
        inside = F.coverage(self.simulation.present_means, decision.mu_hat, decision.width, decision.beta, mask=mask)
        objective = F.online_objective(play.gradient.value, self.value, t=t, horizon=self.horizon)  # Eq. 14
        self.last_probs = decision.probs
        regret = self.regret.mean()
        count = len(beta)
        row = {
            "regret/cumulative": regret,
            "regret/per_round": regret / t,
            "policy/beta": beta.mean(),
            "policy/beta_low": beta.quantile(0.1),
            "policy/beta_high": beta.quantile(0.9),
            "policy/beta_bound": self.beta_bound,
            "policy/eta": self.present_eta,
            "policy/gamma": decision.gamma.mean(),
            "policy/num_suboptimal": F.num_suboptimal(decision.index, mask=mask).float().mean(),
            "policy/entropy": decision.entropy().mean(),
            "policy/coverage": inside.mean(),
            "grad/reward": step.reward.mean(),
            "grad/penalty": step.penalty.mean(),
            "loss/objective": (objective + step.penalty * beta).mean(),
        }
        if isinstance(self.eta, OnlineDual):
            row["policy/coverage_estimated"] = self.eta.coverage(beta).mean()
        self.log_row(row, batch_size=count)
        self.log_dict({"beta": float(beta.mean()), "regret": float(regret)}, prog_bar=True, logger=False, batch_size=count)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Save the trajectories in progress."""
        super().on_save_checkpoint(checkpoint)
        if self.simulation is not None:
            checkpoint["simulation"] = self.simulation.state_dict()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep the trajectories of the checkpoint until the data arrive."""
        super().on_load_checkpoint(checkpoint)
        self._saved = checkpoint.get("simulation")
        self._rounds = 0 if self._saved is None else self._saved["t"]
