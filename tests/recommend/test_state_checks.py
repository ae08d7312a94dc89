"""States that no head can be in are refused, and nothing is loaded."""

import pytest
import torch

from tests.recommend.cases import head, requests, same_state, state_of

D = torch.double
IMPOSSIBLE = {
    "an id twice": ("pending.id", lambda v: v[:1].expand(4).clone()),
    "ids that the head has issued": ("pending.id", lambda v: v + 1000),
    "ids that the head has issued, got -3": ("pending.id", lambda v: v - 3),
    "pending.id must be int64": ("pending.id", lambda v: v.double()),
    "pending.x must have shape": ("pending.x", lambda v: v[:2]),
    "pending.x must be finite": ("pending.x", lambda v: v * torch.nan),
    r"pending.bandit must be in \[0, 20\)": ("pending.bandit", lambda v: v + 10**12),
    r"pending.bandit must be in \[0, 20\), got \(-": ("pending.bandit", lambda v: v - 20),
    "stream must have a counter from 0": ("stream", lambda v: torch.tensor([1, -7])),
    "stream must have 2 numbers": ("stream", lambda v: v[:1]),
    "stream must be int64": ("stream", lambda v: v.double()),
    r"replicas must be in \[0, 2\*\*28\)": ("replicas", lambda v: v + 2**28),
    "replicas must be different": ("replicas", lambda v: v.repeat(2, 1)),
    "replicas must have counters": ("replicas", lambda v: torch.tensor([[4, -1], [0, 0]])),
    "replicas must have shape": ("replicas", lambda v: v[:0]),
    "features.mean must be finite": ("features.mean", lambda v: v + torch.inf),
    "features.scale must be finite and above 0": ("features.scale", lambda v: v * 0),
    "must be a tensor, got str": ("stream", lambda v: "12"),
}


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("reason", IMPOSSIBLE)
def test_a_state_that_cannot_be_is_refused_and_nothing_changed(reason, strict):
    ours, other = head(users=20, normalise=True), head(users=20, normalise=True)
    user, items = requests(4, 5)
    ours.serve(ours(user, items, bandit=user))
    other.serve(other(user[:2], items[:2], bandit=user[:2]))
    state = ours.state_dict()
    name, change = IMPOSSIBLE[reason]
    state[name] = change(state[name])
    before = state_of(other)
    for load in (other, torch.nn.ModuleDict({"head": other})):  # also as part of a larger model
        prefix = "" if load is other else "head."
        with pytest.raises(ValueError, match=reason):
            load.load_state_dict({prefix + k: v for k, v in state.items()}, strict=strict)
    assert same_state(before, state_of(other))
    assert other.serve(other(user, items, bandit=user)).id.tolist() == [2, 3, 4, 5]


def test_a_state_with_a_part_of_the_open_decisions_is_refused():
    ours, other = head(), head()
    ours.serve(ours(*requests(4, 5)))
    state = {name: value for name, value in ours.state_dict().items() if name != "pending.id"}
    with pytest.raises(ValueError, match="must have id, x and bandit, or none of them"):
        other.load_state_dict(state, strict=False)
    state = ours.state_dict()
    state["pending.bandit"] += 1
    with pytest.raises(ValueError, match=r"pending\.bandit must be -1"):
        other.load_state_dict(state)
    assert not len(other.open_decisions)
