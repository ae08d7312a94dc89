"""State of the head: across processes, modes and ranks."""

import subprocess
import sys

import torch
from torch import nn

from tests.recommend.cases import Towers, head, requests, same_state, state_of
from torch_softucb import SoftUCBHead, SoftUCBPolicy

D = torch.double


def test_inference_mode_leaves_the_head_as_it_was():
    ours = SoftUCBHead(nn.Identity(), SoftUCBPolicy(3, dtype=D), normalise=True)
    features = torch.randn(4, 5, 3, dtype=D)
    with torch.inference_mode():
        ours.calibrate([(features,)])
        served = ours.serve(ours(features))
        ours.feedback(served.id[:2], torch.ones(2, dtype=D))
        ours.reseed(1)
    ours.feedback(served.id[2:], torch.ones(2, dtype=D))
    ours.serve(ours(features))
    ours.load_state_dict(ours.state_dict())
    assert ours.policy.state.num_observations == 4


def test_every_buffer_that_differs_between_ranks_is_left_out_of_ddp():
    state = set(head().state_dict())
    named = set(SoftUCBHead._ddp_params_and_buffers_to_ignore)
    assert named <= state
    assert {name for name in state if "pending" in name or "stream" in name or "statistics" in name} <= named


def test_state_goes_through_a_new_process(tmp_path):
    ours = head(users=20, intercept=True)
    user, items = requests(6, 5)
    served = ours.serve(ours(user, items, bandit=user))
    ours.feedback(served.id[:3], torch.ones(3, dtype=D))
    torch.save(ours.state_dict(), tmp_path / "head.pt")
    script = (
        "import sys, torch; from tests.recommend.cases import head, requests\n"
        "ours = head(users=20, intercept=True); ours.load_state_dict(torch.load(sys.argv[1], weights_only=True))\n"
        "user, items = requests(6, 5); ours.feedback(torch.tensor([3, 4, 5]), torch.ones(3).double())\n"
        "served = ours.serve(ours(user, items, bandit=user)); torch.save([ours.state_dict(), served.arm], sys.argv[2])\n"
    )
    subprocess.run([sys.executable, "-c", script, tmp_path / "head.pt", tmp_path / "out.pt"], check=True)
    state, arm = torch.load(tmp_path / "out.pt", weights_only=True)
    ours.feedback(served.id[3:], torch.ones(3, dtype=D))
    assert ours.serve(ours(user, items, bandit=user)).arm.equal(arm)
    assert same_state(state_of(ours), state)


def test_100_000_users_fit_into_500_mb():
    policy = SoftUCBPolicy(16)
    policy.reset(batch_shape=(100_000,))
    ours = SoftUCBHead(Towers(16, dtype=torch.float32), policy)
    total = sum(value.numel() * value.element_size() for value in ours.state_dict().values())
    print(f"{total / 1e6:.0f} MB")
    assert total < 500e6
