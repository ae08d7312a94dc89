"""Settings of the paper's experiments: panels, constants, and the grids that policies are tuned on. Data, no code."""

from dataclasses import dataclass

NUM_ARMS = 50
FAIL_PROB = 0.01  # of Eq. 5 and of Agrawal & Goyal's scale, for the baselines
ETA_OFFLINE = 0.002  # the same for all columns of Table 1 and all panels
ETA_ONLINE = 1.0
LR_OFFLINE, LR_ONLINE = 5.0, 0.1


@dataclass(frozen=True)
class Panel:
    """One panel of Figure 2: a family of problems."""

    title: str
    source: str  # "synthetic", "movielens" or "jester"
    dim: int  # of the policy; with an intercept, one more than the number of principal components
    noise_std: float
    low: float  # range of the mean rewards
    high: float
    intercept: bool = False
    target: int = -1  # real data: index of the item whose ratings are the rewards
    num_arms: int = NUM_ARMS


def synthetic_panel(dim: int, *, noise_std: float = 0.5, num_arms: int = NUM_ARMS) -> Panel:
    """Return the family of random problems of Sec. 5."""
    return Panel(f"Synthetic d = {dim}", "synthetic", dim, noise_std, -1.0, 1.0, num_arms=num_arms)


PANELS = [
    synthetic_panel(10),
    synthetic_panel(20),
    Panel("MovieLens", "movielens", 10, 0.1, 0.0, 1.0),
    Panel("Jester", "jester", 10, 0.1, 0.0, 1.0),
    Panel("MovieLens, intercept", "movielens", 11, 0.1, 0.0, 1.0, intercept=True),
    Panel("Jester, intercept", "jester", 11, 0.1, 0.0, 1.0, intercept=True),
]

TABLE_1 = [(5, 256), (5, 512), (5, 1024), (10, 1024), (15, 1024)]  # (d, T) of each column
TABLE_1_LEARNED = [0.5, 0.6, 0.9, 1.1, 1.2]  # as printed in the paper, like the next line
TABLE_1_BOUND = [2.56, 2.66, 2.76, 3.25, 3.61]

# policy: the hyper-parameter that is tuned, and its values
GRIDS: dict[str, tuple[str, list[float]]] = {
    "SoftUCB, fixed beta": ("beta", [0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.3]),
    "SoftUCB offline": ("eta", [0.0005, 0.001, 0.002, 0.003]),
    "SoftUCB online": ("eta", [0.1, 0.3, 1.0, 2.0]),
    "LinUCB": ("beta", [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.3, 1.8]),
    "LinTS": ("scale", [0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7]),
    "epsilon-greedy": ("epsilon", [0.0, 0.01, 0.02, 0.05, 0.1, 0.2]),
    "SoftElim": ("rate", [0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 20.0]),
    "LinPHE": ("perturbation", [0.05, 0.1, 0.2, 0.5, 1.0]),
    "LinGiro": ("pseudo", [0.05, 0.1, 0.2, 0.5, 1.0]),
    "BootstrapThompson": ("prior_std", [0.1, 0.3, 1.0]),
    "BootstrappedUCB": ("subgaussian_r", [0.01, 0.03, 0.1, 0.3]),
    "PhasedElimination": ("subgaussian_r", [0.02, 0.05, 0.1, 0.2]),
    "EXP3": ("exploration", [0.05, 0.1, 0.2, 0.5]),
}
PAPER_BASELINES = ["LinUCB", "LinTS", "epsilon-greedy"]  # of Figure 2; the paper names the others elsewhere
BETA_CURVE = [0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0]
TARGET_BETAS = [0.2, 0.3, 0.4, 0.6, 0.8, 1.2, 1.8]
ETAS = [0.0, 0.0003, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02]  # for the sensitivity to eta that the paper mentions
