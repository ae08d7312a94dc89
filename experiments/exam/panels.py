"""The paper's Jester and MovieLens panels, with and without intercept, in two units of the reward."""

import math
from dataclasses import replace

import torch

from experiments.exam.settings import AUTO, Maker
from experiments.paper.problems import problems
from experiments.paper.settings import PANELS
from experiments.seeds import seed_for
from experiments.tables import Rows
from torch_softucb import BanditProblem, LinUCB, SoftUCBPolicy, rollout
from torch_softucb.policies import BanditPolicy

BETAS = [math.exp(math.log(0.03) + i * math.log(4.0 / 0.03) / 19) for i in range(20)]  # 0.03 to 4
TUNED = "LinUCB, best of 20 betas in hindsight"
UNITS = {"as in the paper": (1.0, 0.0), "stars: 1 + 4 y": (4.0, 1.0)}


def _makers() -> dict[str, Maker]:
    return {
        AUTO: lambda dim, horizon: SoftUCBPolicy.auto(dim, horizon=horizon),
        "auto, horizon not given": lambda dim, horizon: SoftUCBPolicy.auto(dim),
        "pretrained": lambda dim, horizon: SoftUCBPolicy.pretrained(dim, horizon=horizon),
        "SoftUCB, default": lambda dim, horizon: SoftUCBPolicy(dim),
        "greedy (LinUCB, beta 0)": lambda dim, horizon: LinUCB(dim, beta=0.0),
    }


def _final(policy: BanditPolicy, problem: BanditProblem, horizon: int) -> float:
    """Return the mean regret at the horizon."""
    noise, action = (
        torch.Generator().manual_seed(seed_for("test", 0, stream, study="exam")) for stream in ("noise", "action")
    )
    played = rollout(policy, problem, horizon=horizon, generator=action, noise_generator=noise, compile="native")
    return float(played.regret.sum(0).mean())


def panels(*, count: int = 1024, horizon: int = 1024) -> Rows:
    """Play the four panels in two units; regret is divided by the unit, so that it can be compared."""
    rows: Rows = []
    for panel in (panel for panel in PANELS if panel.source != "synthetic"):
        first = problems(panel, "test", count, study="exam")
        for unit, (scale, shift) in UNITS.items():
            problem = replace(first, means=scale * first.means + shift, noise_std=scale * panel.noise_std)
            found = {name: _final(make(panel.dim, horizon), problem, horizon) for name, make in _makers().items()}
            found[TUNED] = min(_final(LinUCB(panel.dim, beta=beta), problem, horizon) for beta in BETAS)
            same = {"panel": panel.title, "unit": unit}
            rows += [{**same, "policy": name, "regret": value / scale} for name, value in found.items()]
    return rows
