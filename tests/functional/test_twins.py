"""Eqs. 6-9 in torch, numpy and C++: three implementations, one result.

torch (functional/softmax.py) is the definition. policies/fast_path.py repeats it in numpy for one decision, and
simulation/backends/rounds.cpp in C++ for rollouts.
"""

import re
from pathlib import Path

import pytest
import torch

from torch_softucb import BanditProblem, SoftUCBPolicy
from torch_softucb import functional as F
from torch_softucb.policies.fast_path import soft_choice
from torch_softucb.simulation.backends.compiled import find_compiler
from torch_softucb.simulation.engine import Simulation

D = torch.double
PACKAGE = Path(F.__file__).parent.parent
TWINS = ["functional/softmax.py", "policies/fast_path.py", "simulation/backends/rounds.cpp"]
ROWS, ARMS, DELTA, SMOOTHING, CARRIED = 4, 6, 0.95, 0.2, 1.7
BETAS = {"some arms eliminated": 0.5, "no arm eliminated": 50.0, "max S <= 0": 0.0}
MASKS = {
    "no mask": None,
    "one mask for all": torch.tensor([True, False, True, True, True, False]),
    "a mask per row": torch.tensor([[1, 1, 1, 1, 1, 1], [0, 1, 1, 0, 1, 1], [0, 0, 0, 1, 0, 0], [1, 0, 1, 0, 1, 0]]).bool(),
}


def _inputs(seeded):
    """Row 0 is exact in binary: at beta = 0.5 its S are 0.5, 0, 0.5, 0.25, 0.5 and -1.5, one eliminated arm and one at 0."""
    g = seeded(0)
    mu_hat, width = torch.randn(ROWS, ARMS, dtype=D, generator=g), 0.1 + torch.rand(ROWS, ARMS, dtype=D, generator=g)
    mu_hat[0], width[0] = torch.tensor([1.0, 0.5, 1.0, 0.75, 1.0, -1.0]), 0.5
    return mu_hat, width


def _torch(mu_hat, width, beta, coldness, mask):
    """(S, new gamma, gamma in use, p)."""
    index = F.soft_ucb_index(mu_hat, width, torch.tensor(beta, dtype=D), mask=mask)
    if coldness == "smooth":
        fresh = F.smooth_coldness(index, DELTA, smoothing=SMOOTHING, mask=mask)
    else:
        fresh = F.coldness(index, DELTA, mask=mask)
    gamma = torch.full_like(fresh, CARRIED) if coldness == "lagged" else fresh
    return index, fresh, gamma, F.arm_probabilities(index, gamma, mask=mask)


def _cases(test):
    for name, values in (("beta", BETAS), ("mask", MASKS)):
        test = pytest.mark.parametrize(name, list(values.values()), ids=list(values))(test)
    return pytest.mark.parametrize("coldness", ["current", "lagged", "smooth"])(test)


@_cases
def test_numpy_is_torch(coldness, beta, mask, seeded):
    mu_hat, width = _inputs(seeded)
    index, fresh, gamma, probs = _torch(mu_hat, width, beta, coldness, mask)
    assert ((fresh == 0).all()) == (beta == 0 or (beta == 50 and coldness != "smooth"))  # D1: the cases are what they claim
    for row in range(ROWS):
        allowed = None if mask is None else mask.expand(ROWS, ARMS)[row].numpy()
        settings = {
            "delta": DELTA,
            "smoothing": SMOOTHING if coldness == "smooth" else None,
            "carried": CARRIED if coldness == "lagged" else None,
            "mask": allowed,
        }
        choice = soft_choice(mu_hat[row].numpy(), width[row].numpy(), beta, **settings)
        assert pytest.approx(index[row].numpy(), abs=1e-10) == choice.S
        assert choice.next_gamma == pytest.approx(fresh[row].item(), abs=1e-10)
        assert choice.gamma == pytest.approx(gamma[row].item(), abs=1e-10)
        assert choice.probs == pytest.approx(probs[row].numpy(), abs=1e-10)


@pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler")
@_cases
def test_one_native_round_is_torch(coldness, beta, mask, seeded):
    """Trajectory (row, k) has the means 1 for arm k and 0 elsewhere: its regret is 1 - p_k, for an allowed arm k."""
    mu_hat, width = _inputs(seeded)
    _, fresh, _, probs = _torch(mu_hat, width, beta, coldness, mask)
    allowed = torch.ones(ROWS, ARMS, dtype=torch.bool) if mask is None else mask.expand(ROWS, ARMS)
    each = allowed.unsqueeze(1).expand(ROWS, ARMS, ARMS)
    means = torch.eye(ARMS, dtype=D).expand(ROWS, ARMS, ARMS)
    features = torch.zeros(ARMS, 3, dtype=D)  # the update after the round then changes nothing
    problem = BanditProblem(features, means, 0.0, None if mask is None else each)
    policy = SoftUCBPolicy(3, beta_init=beta, delta=DELTA, coldness=coldness, smoothing=SMOOTHING, dtype=D)
    simulation = Simulation(policy, problem, generator=seeded(2), compile="native")
    state = simulation.state_dict()
    wide = (ROWS, ARMS, ARMS)
    state["mu_hat"] = mu_hat.unsqueeze(1).expand(wide).movedim(-1, 0).contiguous()
    state["width_sq"] = width.square().unsqueeze(1).expand(wide).movedim(-1, 0).contiguous()
    state["gamma"] = torch.full((ROWS, ARMS), CARRIED, dtype=D)
    simulation.load_state_dict(state)
    (played,) = simulation.play(1, recorded=lambda t: False)
    if played.decision is not None:
        pytest.skip("the native kernel cannot be built here: this round was played eagerly")
    torch.testing.assert_close(1 - played.regret[0][allowed], probs[allowed], atol=1e-10, rtol=0)
    if coldness == "lagged":  # others do not carry gamma
        torch.testing.assert_close(simulation.state.gamma, fresh.unsqueeze(1).expand(ROWS, ARMS), atol=1e-10, rtol=0)


def _lines(file, equation):
    return [line for line in file.read_text().splitlines() if re.search(rf"(#|//) {equation}\b(?!-)", line)]


def test_eq_9_is_found_by_its_number():
    """A search for "Eq. 9" as a comment gives one definition in torch, and its twins in numpy and C++."""
    counts = {name: len(_lines(PACKAGE / name, r"Eq\. 9")) for name in TWINS}
    assert min(counts.values()) >= 1
    formulas = sorted((PACKAGE / "functional").glob("*.py"))
    assert [file.name for file in formulas for _ in _lines(file, r"Eq\. 9")] == ["softmax.py"]
