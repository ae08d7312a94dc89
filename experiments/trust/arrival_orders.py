"""R11: statistics rebuilt from the log, and rewards that arrive in any order."""

import random
import tempfile

import torch

from experiments.trust.goal import Result, Size, goal
from experiments.trust.serving import USERS, new_head, request, state_bytes
from torch_softucb import SoftUCBHead
from torch_softucb.recommend import DecisionLog, restart


def _refused(head: SoftUCBHead, id: int) -> bool:
    """Whether feedback for an id is refused, with nothing changed."""
    before = state_bytes(head.state_dict())
    try:
        head.feedback(torch.tensor([id]), torch.ones(1, dtype=torch.double))
    except ValueError:
        return state_bytes(head.state_dict()) == before
    return False


def _one_order(rng: random.Random, users: int | None) -> tuple[float, int, int]:
    """Serve requests and learn in two orders: difference of the statistics, refusals that were due, refusals."""
    one, other = new_head(users=users), new_head(users=users)
    other.load_state_dict(one.state_dict())
    ids, rewards = [], []
    for _ in range(6):
        user, items = request(5, 4, rng.randrange(10**6))
        decision = one(items, bandit=user if users else None)
        served = one.serve(decision)
        assert other.serve(decision).id.equal(served.id)
        ids += served.id.tolist()
        rewards += [rng.gauss(0, 1) for _ in range(5)]
    for id, reward in zip(ids, rewards, strict=True):
        one.feedback(torch.tensor([id]), torch.tensor([reward], dtype=torch.double))
    order = list(range(len(ids)))
    rng.shuffle(order)
    due = refusals = 0
    while order:
        part = [order.pop() for _ in range(min(len(order), rng.randint(1, 7)))]
        other.feedback(torch.tensor([ids[i] for i in part]), torch.tensor([rewards[i] for i in part], dtype=torch.double))
        for wrong in (ids[part[0]], ids[-1] + 1 + rng.randrange(1000), -1):  # answered before, never issued, impossible
            due += 1
            refusals += _refused(other, wrong)
    ours, theirs = one.policy.state, other.policy.state
    pairs = [(ours.V, theirs.V), (ours.b, theirs.b), (ours.num_observations, theirs.num_observations)]
    return max(float((a - b).abs().max()) for a, b in pairs), due, refusals


def _replayed_bitwise(seed: int, users: int | None) -> bool:
    """Whether a head rebuilt from the whole log equals the one that wrote it."""
    with tempfile.TemporaryDirectory() as folder:
        head = new_head(users=users)
        start = {name: value.clone() for name, value in head.state_dict().items()}
        with DecisionLog(folder) as log:
            for step in range(30):
                user, items = request(3, 4, 1000 * seed + step)
                served = head.serve(head(items, bandit=user if users else None))
                log.decisions(served)
                reward = torch.randn(3, dtype=torch.double, generator=torch.Generator().manual_seed(step))
                head.feedback(served.id, reward)
                log.rewards(served.id, reward)
                log.commit()
        again = new_head(users=users)
        again.load_state_dict(start)
        restart(again, folder)
        return state_bytes(again.policy.state_dict()) == state_bytes(head.policy.state_dict())


@goal(
    "R11",
    claim="""Replaying the log in order rebuilds the statistics bitwise; rewards that arrive in any order and grouping
    give the same V, b and count within 1e-12; every repeated or unknown id is refused without any change.""",
    method="""Heads for one bandit and for one per user serve the same requests; one gets its rewards in order, the
    other in a random order and in random groups, with an answered, a never issued and an impossible id after each
    group. Logs are replayed into new heads by `restart`.""",
)
def arrival_orders(size: Size) -> Result:
    rng, count = random.Random(size.seed), size.of(200, 10)
    worst, due, refusals = 0.0, 0, 0
    for i in range(count):
        difference, asked, refused = _one_order(rng, USERS if i % 2 else None)
        worst, due, refusals = max(worst, difference), due + asked, refusals + refused
    replays = size.of(20, 4)
    bitwise = sum(_replayed_bitwise(seed, USERS if seed % 2 else None) for seed in range(replays))
    met = worst <= 1e-12 and refusals == due and bitwise == replays
    return Result(
        met,
        f"{bitwise} of {replays} replays bitwise; {count} random orders within {worst:.1e}; {refusals:,} of {due:,} "
        "repeated or unknown ids refused",
    )
