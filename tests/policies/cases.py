"""Every policy, under its name: what the shared tests run over. A new policy adds a line here."""

from torch_softucb import EpsilonGreedy, LinTS, LinUCB, SoftUCBPolicy

POLICIES = {
    "soft_ucb": lambda dim, **kind: SoftUCBPolicy(dim, beta_init=0.7, **kind),
    "soft_ucb_lagged": lambda dim, **kind: SoftUCBPolicy(dim, beta_init=0.7, coldness="lagged", **kind),
    "soft_ucb_smooth": lambda dim, **kind: SoftUCBPolicy(dim, beta_init=0.7, coldness="smooth", **kind),
    "lin_ucb": lambda dim, **kind: LinUCB(dim, beta=0.7, **kind),
    "lin_ucb_horizon": lambda dim, **kind: LinUCB.theoretical(dim, horizon=100, subgaussian_r=0.5, fail_prob=0.01, **kind),
    "lin_ucb_running": lambda dim, **kind: LinUCB.theoretical(dim, subgaussian_r=0.5, fail_prob=0.01, **kind),
    "lin_ts": lambda dim, **kind: LinTS(dim, scale=0.3, **kind),
    "lin_ts_theoretical": lambda dim, **kind: LinTS.theoretical(dim, subgaussian_r=0.5, fail_prob=0.01, **kind),
    "epsilon_greedy": lambda dim, **kind: EpsilonGreedy(dim, epsilon=0.1, **kind),
}
SAMPLED = {"lin_ts", "lin_ts_theoretical"}  # no probabilities in closed form
