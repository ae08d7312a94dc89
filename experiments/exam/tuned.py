"""auto in the settings of the report "Is learning worth it?", against the baseline that was tuned there."""

from dataclasses import replace
from pathlib import Path

from experiments.statistics import ratio
from experiments.tables import Rows, having, load
from experiments.worth.settings import Maker, Setting, final_regret, lin_ts, lin_ucb
from torch_softucb import SoftUCBPolicy
from torch_softucb.learning.episode import Episode

_BASELINES = {"LinUCB": lin_ucb, "LinTS": lin_ts}
UNITS = {"as there": (1.0, 0.0), "times 0.01 plus 3": (0.01, 3.0)}


def _auto(dim: int, horizon: int) -> SoftUCBPolicy:
    return SoftUCBPolicy.auto(dim, horizon=horizon)


def in_unit(episode: Episode, scale: float, shift: float) -> Episode:
    """Return the episode with rewards ``scale * y + shift``."""
    problem, rotated = episode.problem, episode.problem.rotated_means
    if rotated is not None:  # the means of a drifting problem rotate around 0: they have no offset
        rotated, shift = scale * rotated, 0.0
    means, noise_std = scale * problem.means + shift, scale * problem.noise_std
    return replace(episode, problem=replace(problem, means=means, rotated_means=rotated, noise_std=noise_std))


def against_tuned(settings: list[Setting], worth: Path, *, count: int, horizon: int) -> Rows:
    """Return the regret of auto over the best tuned baseline's, with a 95% interval.

    Args:
        settings: sources of problems.
        worth: folder with worth.csv, which has the tuned values.
        count: number of test problems.
        horizon: number of rounds.
    """
    rows: Rows = []
    for setting in settings:
        tuned = having(load(worth, "worth"), setting=setting.title)
        best = tuned[0]["baseline"]
        value = having(tuned, policy=best)[0]["value"]
        baseline: Maker = _BASELINES[best](value)
        theirs = final_regret(baseline, setting.episodes("test", count, horizon))
        for unit, (scale, shift) in UNITS.items():
            episodes = (in_unit(episode, scale, shift) for episode in setting.episodes("test", count, horizon))
            ours = final_regret(_auto, episodes) / scale
            middle, low, high = ratio(ours, theirs)
            row = {"setting": setting.title, "baseline": f"{best} at {value:.3g}", "unit": unit}
            rows.append({**row, "regret": float(ours.mean()), "ratio": middle, "low": low, "high": high})
    return rows
