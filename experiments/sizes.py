"""How much each study simulates, at full size and at a quick size that only shows that the code runs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Size of the paper's experiments."""

    test: int = 256  # held-out problems per panel
    sweep: int = 96  # problems that settings are tuned on
    horizon: int = 1024
    trajectories: int = 256  # per training step
    steps: int = 150
    short_steps: int = 60  # training steps of studies that train many policies
    targets: int = 40  # items that are used as the target, one after the other


@dataclass(frozen=True)
class Budget:
    """Size of the comparison of learning with grid search; both simulate the same number of rounds."""

    test: int = 16384  # held-out problems
    tune: int = 1024  # problems per grid point
    points: int = 40  # grid points
    horizon: int = 1024
    trajectories: int = 512  # per training step

    def steps(self, per_step: int) -> int:
        """Return the number of training steps of ``per_step`` trajectories that cost as many rounds as the grid."""
        return max(1, self.points * self.tune // per_step)


@dataclass(frozen=True)
class GradientSize:
    """Size of the study of bias and noise of the gradient estimators."""

    trajectories: int = 204_800
    chunk: int = 8192  # trajectories per rollout
    horizon: int = 256
    given: int = 2048 * 256  # simulated rounds that the standard errors are stated for


@dataclass(frozen=True)
class CoverageSize:
    """Size of the study of target coverages."""

    tune: int = 192  # problems that betas are chosen on
    test: int = 384  # held-out problems
    cases: int | None = None  # None: all of them


@dataclass(frozen=True)
class Size:
    """Sizes of all studies."""

    paper: Scale
    worth: Budget
    starts: Budget
    gradients: GradientSize
    coverage: CoverageSize


_QUICK_BUDGET = Budget(test=16, tune=8, points=3, horizon=24, trajectories=8)
FULL = Size(
    paper=Scale(),
    worth=Budget(),
    starts=Budget(tune=2048, trajectories=1024),  # 80 training steps of 1,024 trajectories
    gradients=GradientSize(),
    coverage=CoverageSize(),
)
QUICK = Size(
    paper=Scale(test=12, sweep=6, horizon=48, trajectories=8, steps=4, short_steps=3, targets=2),
    worth=_QUICK_BUDGET,
    starts=_QUICK_BUDGET,
    gradients=GradientSize(trajectories=64, chunk=32, horizon=48),
    coverage=CoverageSize(tune=8, test=8, cases=2),
)
