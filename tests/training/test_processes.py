"""Two processes on one machine: the same beta as one, and every rank's observations kept."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
TINY = ["--data.num_arms", "10", "--data.dim", "4", "--data.trajectories", "16", "--data.num_steps", "20"]
TINY += ["--data.eval_trajectories", "8", "--model.init_args.horizon", "64"]


def _train(folder, *extra):
    folder.mkdir()
    config = ROOT / "scripts" / "configs" / "multi_process.yaml"
    command = [sys.executable, str(ROOT / "scripts" / "train.py"), "--config", str(config), *TINY, *extra]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (file,) = folder.rglob("last.ckpt")
    return torch.load(file, weights_only=True)["state_dict"]["policy.raw_beta"], done.stdout


@pytest.mark.slow
def test_two_processes_give_the_beta_of_one(tmp_path):
    one, said_one = _train(tmp_path / "one", "--trainer.devices", "1", "--trainer.strategy", "auto")
    two, said_two = _train(tmp_path / "two")
    assert one != 1.0
    assert abs(one - two) < 1e-6
    assert said_one.splitlines()[-2] == said_two.splitlines()[-2]  # the regret of the last rival: same problems, same noise


PLAIN = """
import os, sys, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch_softucb import SoftUCBPolicy
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
model = DDP(SoftUCBPolicy(3))
torch.manual_seed(rank)
for _ in range(5):
    model(torch.randn(4, 3)).log_prob(torch.tensor(0)).backward()
    model.module.update(torch.randn(2, 3), torch.randn(2))
model(torch.randn(4, 3))
print(int(model.module.state.num_observations), float(model.module.state.V.sum()), float(model.module.raw_beta.grad))
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_plain_ddp_keeps_every_ranks_observations(tmp_path):
    start = [sys.executable, "-c", PLAIN]
    ranks = [
        subprocess.Popen([*start, str(r), str(tmp_path / "meet")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for r in range(2)
    ]
    said = [p.communicate(timeout=120) for p in ranks]
    assert all(p.returncode == 0 for p in ranks), said
    (seen_0, v_0, grad_0), (seen_1, v_1, grad_1) = (out.split() for out, _ in said)
    assert seen_0 == seen_1 == "10"
    assert v_0 != v_1  # statistics of its own
    assert grad_0 == grad_1  # beta's gradient is shared
