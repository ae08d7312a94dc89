"""Search for the weights of the beta module of SoftUCBPolicy.auto, and write them as safetensors.

    SOFTUCB_DATA=folder python scripts/pretrain_auto.py     # half an hour per sweep on 2 cores

The search begins with weights that were found with fixed arms. What it finds is compared with single numbers and with the
packaged weights on members of the family that it never used, and is written only if it is better than all of them. The
packaged weights come from a search with fixed arms, which the metadata of their file describes; none has beaten them yet.
The folder needs the tables in uci/, for the weight of arms with separate models.
"""

import argparse
import json
import math
import os
import sys
from dataclasses import asdict
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))  # experiments/ is in the repository, not in the package

from experiments.pretraining import FAMILY, FIXED_ARMS, SEPARATE, family_regret, members, search, table_mistakes
from torch_softucb.policies.auto import DELTA
from torch_softucb.policies.beta.summary import PRETRAINED_AUTO, SummaryBeta

NUMBERS = (1.4, 1.7, 2.0, 2.4, 2.8)  # betas in units of the noise that the module is compared with
SEARCHED, HELD_OUT = 11, 12  # seeds of the members


def main(argv: list[str] | None = None) -> None:
    """Search, compare and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=64, help="members of the family in the search (default 64)")
    parser.add_argument("--trajectories", type=int, default=128, help="problems per member (default 128)")
    parser.add_argument("--sweeps", type=int, default=1, help="how often every weight is tried (default 1)")
    parser.add_argument("--rounds", type=int, default=3000, help="rounds on the classification tables (default 3000)")
    parser.add_argument("--out", type=Path, default=PRETRAINED_AUTO, help="file to write (default: in the package)")
    args = parser.parse_args(argv)
    if "SOFTUCB_DATA" not in os.environ:
        parser.error("set SOFTUCB_DATA to the folder that contains uci/")
    torch.set_num_threads(2)
    episodes = members(args.members, args.trajectories, seed=SEARCHED)
    weights = search(lambda w: family_regret(w.module, episodes), FIXED_ARMS, sweeps=args.sweeps)
    tried = {step: table_mistakes(weights.moved("separate_arms", step), horizon=args.rounds) for step in SEPARATE}
    for step, value in tried.items():
        print(f"separate_arms {step:+.2f}: {value:.4f}")
    weights = weights.moved("separate_arms", min(tried, key=lambda step: tried[step]))
    others = members(args.members, args.trajectories, seed=HELD_OUT)
    numbers = {number: family_regret(lambda _, number=number: number, others) for number in NUMBERS}  # type: ignore[misc]
    packaged = family_regret(lambda horizon: SummaryBeta.load(PRETRAINED_AUTO, horizon=horizon)[0], others)
    best = min(numbers.values())
    own, blind = family_regret(weights.module, others), family_regret(lambda _: weights.module(None), others)
    print("Regret on held-out members, geometric mean, over that of the best number:")
    for number, value in numbers.items():
        print(f"  beta {number:<23g} {math.exp(value - best):.3f}")
    print(f"  module, horizon given in 2 of 3 {math.exp(own - best):.3f}")
    print(f"  module, horizon never given     {math.exp(blind - best):.3f}")
    print(f"  packaged module                 {math.exp(packaged - best):.3f}")
    if own >= min(best, packaged):
        print("A number or the packaged module is as good: nothing was written.")
        return
    module = weights.module(None)
    command = (
        f"python scripts/pretrain_auto.py --members {args.members} --trajectories {args.trajectories} "
        f"--sweeps {args.sweeps} --rounds {args.rounds}"
    )
    args.out.parent.mkdir(parents=True, exist_ok=True)
    about = {"delta": f"{DELTA:.17g}", "command": command, "family": json.dumps(asdict(FAMILY)), "torch": torch.__version__}
    module.save(args.out, **about)
    print(f"Written: {args.out} ({args.out.stat().st_size} bytes), by {command}")


if __name__ == "__main__":
    main()
