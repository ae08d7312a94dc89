"""Every TensorBoard tag with its meaning. The README quotes this list; a test compares it with a real run."""

BASELINES = {
    "lin_ucb_bound": "LinUCB at Eq. 5's radius",
    "lin_ucb_same_beta": "LinUCB at SoftUCB's current beta",
    "lin_ts": "LinTS at Agrawal & Goyal's scale",
    "epsilon_greedy": "epsilon-greedy, 0.05",
}

TAGS = {
    "regret/cumulative": "cumulative expected regret (Eq. 2), mean over the step's trajectories; online: so far",
    "regret/per_round": "the same divided by the number of rounds",
    "policy/beta": "beta, the number of widths of optimism that is being learned; online: mean over trajectories",
    "policy/beta_bound": "the theoretical value of beta, Eq. 5",
    "policy/eta": "weight of the constraint; adapts when it is a dual variable (eta: auto)",
    "policy/gamma": "coldness of the softmax, mean over rounds and trajectories (Eq. 9)",
    "policy/num_suboptimal": "number of arms ruled out as suboptimal, |L|, mean over rounds and trajectories",
    "policy/entropy": "entropy of the arm probabilities in nats, mean over rounds and trajectories",
    "policy/coverage": "fraction of arms and rounds with |mu - mu_hat| <= beta width (Eq. 3)",
    "grad/reward": "reward part of beta's gradient, divided by T (Eq. 13 or 15)",
    "grad/penalty": "penalty part of beta's gradient, divided by T: eta times the mean sum of widths",
    "loss/objective": "the objective: estimated reward per round plus the penalty",
    "validation/soft_ucb": "regret of SoftUCB with beta frozen, on the validation problems",
    "validation/soft_ucb_low": "the same, lower end of the mean's 95% band",
    "validation/soft_ucb_high": "the same, upper end of the mean's 95% band",
    **{f"validation/{name}": f"regret of {what}, same problems, same noise" for name, what in BASELINES.items()},
    "validation/figure": "figure: cumulative regret of all of them over the rounds, mean with 95% band",
    "policy/probs": "histogram of the arm probabilities in the last recorded round",
    "final/regret": "regret of SoftUCB at the end of the run, beside the hyper-parameters (HPARAMS tab)",
    "final/beta": "beta at the end of the run, likewise",
}

ONLINE_TAGS = {
    "policy/beta_low": "online: 10% quantile of beta over trajectories",
    "policy/beta_high": "online: 90% quantile of beta over trajectories",
}

AUTO_TAGS = {
    "policy/coverage_estimated": "online, eta: auto: policy/coverage as estimated from the rewards, mean over trajectories",
}

SCALE_TAGS = {
    "scales/offset": "estimate_scales: offset of the rewards found by the end of the trajectories, mean over trajectories",
    "scales/noise_std": "estimate_scales: standard deviation of the noise found, likewise",
    "scales/prior_std": "estimate_scales: standard deviation of each component of theta found, likewise",
}

LAYOUT = {
    "SoftUCB": {
        "beta against its bound": ["Multiline", ["policy/beta$", "policy/beta_bound"]],
        "regret with 95% band": [
            "Margin",
            ["validation/soft_ucb", "validation/soft_ucb_low", "validation/soft_ucb_high"],
        ],
        "regret against baselines": ["Multiline", ["validation/soft_ucb$", *(f"validation/{name}" for name in BASELINES)]],
        "gradient parts": ["Multiline", ["grad/reward", "grad/penalty"]],
        "coverage": ["Multiline", ["policy/coverage"]],
    }
}
