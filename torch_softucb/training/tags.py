"""Every TensorBoard tag, once, with what it means. The README quotes this list; a test compares it with a real run."""

BASELINES = {
    "lin_ucb_bound": "LinUCB at Eq. 5's radius",
    "lin_ucb_same_beta": "LinUCB at SoftUCB's present beta",
    "lin_ts": "LinTS at Agrawal & Goyal's scale",
    "epsilon_greedy": "epsilon-greedy, 0.05",
}

TAGS = {
    "regret/cumulative": "expected regret of a whole trajectory, mean over the step's trajectories (Eq. 2); online: so far",
    "regret/per_round": "the same divided by the number of rounds",
    "policy/beta": "confidence width that is being learned; online: mean over trajectories",
    "policy/beta_bound": "what theory asks for instead, Eq. 5",
    "policy/eta": "weight of the constraint; moves when it is a dual variable (eta: auto)",
    "policy/gamma": "coldness of the softmax, mean over rounds and trajectories (Eq. 9)",
    "policy/num_suboptimal": "number of arms found suboptimal, |L|, mean over rounds and trajectories",
    "policy/entropy": "entropy of the arm probabilities in nats, mean over rounds and trajectories",
    "policy/coverage": "share of arms and rounds with |mu - mu_hat| <= beta width (Eq. 3)",
    "grad/reward": "reward part of beta's gradient, divided by T (Eq. 13 or 15)",
    "grad/penalty": "penalty part of beta's gradient, divided by T: eta times the mean sum of widths",
    "loss/objective": "what beta climbs: estimated reward a round plus the penalty's part",
    "validation/soft_ucb": "regret of SoftUCB with beta frozen, on the validation problems",
    "validation/soft_ucb_low": "the same, lower end of the mean's 95% band",
    "validation/soft_ucb_high": "the same, upper end of the mean's 95% band",
    **{f"validation/{name}": f"regret of {what}, same problems, same noise" for name, what in BASELINES.items()},
    "validation/figure": "figure: cumulative regret of all of them over the rounds, mean with 95% band",
    "policy/probs": "histogram of the arm probabilities in the last round that was looked at",
    "final/regret": "regret of SoftUCB at the end of the run, beside the hyper-parameters (HPARAMS tab)",
    "final/beta": "beta at the end of the run, likewise",
}

ONLINE_TAGS = {
    "policy/beta_low": "online: the lowest tenth of the trajectories' betas lies below this",
    "policy/beta_high": "online: the highest tenth of the trajectories' betas lies above this",
}

AUTO_TAGS = {
    "policy/coverage_estimated": "online, eta: auto: policy/coverage as the rewards tell it, mean over trajectories",
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
