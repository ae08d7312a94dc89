"""Vowpal Wabbit on the shuffles of the exam. Runs in the separate environment of the other libraries.

Reads an .npz file with ``contexts`` (rows, features), ``label`` (rows,), ``classes`` and ``orders`` (shuffles, rounds), and
prints one JSON line per exploration option: mistakes of each shuffle and microseconds per round.
"""

import json
import random
import sys
import time
from typing import Any

import numpy as np

OPTIONS = {
    "epsilon 0.05": "--cb_explore {k} --epsilon 0.05",
    "greedy": "--cb_explore {k} --epsilon 0.0",
    "first 500": "--cb_explore {k} --first 500",
    "bag 5": "--cb_explore {k} --bag 5",
    "cover 5": "--cb_explore {k} --cover 5",
    "softmax 10": "--cb_explore {k} --softmax --lambda 10",
    "SquareCB": "--cb_explore {k} --squarecb",
    "SquareCB, gamma scale 1000": "--cb_explore {k} --squarecb --gamma_scale 1000",
}


def mistakes(option: str, contexts: Any, label: Any, classes: int, order: Any, seed: int) -> int:
    """Play one shuffle: draw from the probabilities, learn from the cost of the class that was drawn."""
    import vowpalwabbit

    workspace = vowpalwabbit.Workspace(OPTIONS[option].format(k=classes) + f" --quiet --random_seed {seed}")
    draw = random.Random(seed)
    wrong = 0
    for row in order:
        # a name that is a number would be taken as an index, and the features of different classes would collide
        text = " ".join(f"f{i}:{value:.6g}" for i, value in enumerate(contexts[row]) if value)
        probs = workspace.predict(f"| {text}")
        arm = draw.choices(range(classes), weights=probs)[0]
        cost = int(arm != label[row])
        wrong += cost
        workspace.learn(f"{arm + 1}:{cost}:{max(probs[arm], 1e-9):.9g} | {text}")
    workspace.finish()
    return wrong


def main(path: str) -> None:
    """Play every option on every shuffle."""
    with np.load(path, allow_pickle=False) as file:
        contexts, label, orders, classes = file["contexts"], file["label"], file["orders"], int(file["classes"])
    for option in OPTIONS:
        start = time.perf_counter()
        counts = [mistakes(option, contexts, label, classes, order, seed) for seed, order in enumerate(orders)]
        micros = 1e6 * (time.perf_counter() - start) / orders.size
        print(json.dumps({"option": option, "mistakes": counts, "microseconds": micros}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
