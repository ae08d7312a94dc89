"""Decision ids, unique across restarts, replicas and forks, and the random stream that they key."""

import secrets
from functools import partial

import torch
from torch import Tensor

from torch_softucb.checks import check_integer
from torch_softucb.policies.guard import Guard, fork_count
from torch_softucb.rank_state import RankState
from torch_softucb.rng import stream_key

COUNTER_BITS, REPLICA_BITS = 34, 28  # 62 bits in all: an id stays a positive int64
END = 1 << COUNTER_BITS  # a replica number has this many ids


def _split(decision: int) -> tuple[int, int]:
    """Return (replica, counter) of an id."""
    return decision >> COUNTER_BITS, decision & (END - 1)


def issued_ends(stream: Tensor, replicas: Tensor) -> dict[int, int]:  # (2,), (r, 2)
    """Return the end of the issued counters for each replica number, the current one last."""
    ends: dict[int, int] = dict(replicas.tolist())
    if ends:
        current = next(reversed(ends))
        ends[current] = ends[current] or int(stream[1])
    return ends


def has_issued(ends: dict[int, int], decision: int) -> bool:
    """Return whether an id is before the end of the counter of its replica number."""
    replica, counter = _split(decision)
    return decision >= 0 and counter < ends.get(replica, 0)


class DecisionIds(RankState):
    """Base class of modules that number their decisions.

    An id is the number of the replica followed by a counter. The replica number comes from the operating system unless it
    is given, so a new module issues new ids. In a forked child process, and when a replica number has no ids left, the
    module takes another number and another random stream from the operating system. The draw of a decision depends on the
    key of the stream and on the counter, not on the replica number. Both buffers are part of ``state_dict``.

    Args:
        seed: seed of the random draws; None takes it from the operating system.
        replica: number in [0, 2**28); None takes it from the operating system.
        guard: lock that all changes are made under.
        device: where the ids are created.

    Attributes:
        stream: int64 (2,), the key of the random draws and the next value of the counter.
        replicas: int64 (r, 2), the replica numbers used so far, the current one last. Next to each number is the counter at
            which it was left; for the current one 0, or where it ended if the counter has moved past that since.

    Example:
        >>> ids = DecisionIds(0, replica=0, guard=Guard(), device=torch.device("cpu"))
        >>> ids.continue_after(41)
        >>> ids.has_given(41), ids.has_given(42)
        (True, False)
    """

    stream: Tensor
    replicas: Tensor

    def __init__(self, seed: int | None, *, replica: int | None, guard: Guard, device: torch.device) -> None:
        super().__init__()
        self.guard = guard
        self.register_buffer("stream", torch.zeros(2, dtype=torch.int64, device=device))
        self.register_buffer("replicas", torch.zeros(0, 2, dtype=torch.int64, device=device))
        self._forks = fork_count()
        self.reseed(seed, replica=replica)

    @torch.inference_mode(False)
    def reseed(self, seed: int | None = None, *, replica: int | None = None) -> None:
        """Start another random stream and use another replica number for the ids that follow.

        Call it in each replica that was loaded from the same checkpoint. Otherwise the replicas draw the same numbers and
        issue the same ids. After a fork the child does it by itself, with numbers from the operating system.

        Args:
            seed: seed of the draws; by default from the operating system.
            replica: number in [0, 2**28); by default from the operating system.
        """
        if replica is not None:
            check_integer("SoftUCBHead.reseed", "replica", replica, low=0)
            if replica >= 1 << REPLICA_BITS:
                raise ValueError(f"SoftUCBHead.reseed: replica must be below 2**{REPLICA_BITS}, got {replica}")
        with self.guard.lock:
            self.guard.recover()
            self._buffers.update(self._reseeded(seed, replica))

    def has_given(self, decision: int) -> bool:
        """Return whether this id was issued before, whether or not its decision is still open."""
        return has_issued(self._issued(), decision)

    def continue_after(self, decision: int) -> None:
        """Issue only ids that follow this one, which the same module issued before it was restarted."""
        with self.guard.lock:
            self.guard.recover()
            self._buffers.update(self._continued([decision]))

    def _issued(self) -> dict[int, int]:
        return issued_ends(self.stream, self.replicas)

    def _next_ids(self, count: int) -> tuple[int, Tensor, dict[str, Tensor]]:
        """Return the first of the next ids, the key of their draws, and the buffers once they count as issued."""
        if self._forks != fork_count():
            self.reseed()
            self._forks = fork_count()
        stream, after = self.stream, {"replicas": self.replicas}
        key, counter = stream.tolist()
        if counter + count > END:
            after = self._reseeded(None, None, start=0)
            stream = after["stream"]
            key, counter = stream.tolist()
        replica, end = after["replicas"].tolist()[-1]
        if end:
            after["replicas"] = torch.cat((after["replicas"][:-1], stream.new_tensor([[replica, 0]])))
        after["stream"] = torch.tensor([key, counter + count], device=stream.device)
        return (replica << COUNTER_BITS) + counter, stream[0], after

    def _reseeded(self, seed: int | None, replica: int | None, start: int | None = None) -> dict[str, Tensor]:
        """Return the buffers with another stream and replica number, and the counter at ``start`` if it is given."""
        issued = self._issued()
        while replica is None or (start is not None and replica in issued):
            replica = secrets.randbits(REPLICA_BITS)
        generator = torch.Generator().manual_seed(secrets.randbits(63) if seed is None else seed)
        key = int(stream_key(generator, "action", torch.device("cpu")))
        counter = int(self.stream[1]) if start is None else start
        return self._as_buffers(key, max(counter, issued.pop(replica, 0)), issued, replica)

    def _continued(self, decisions: list[int]) -> dict[str, Tensor]:
        """Return the buffers once these ids count as issued; the replica number of the last one is the current one."""
        issued, (key, present) = self._issued(), self.stream.tolist()
        for decision in decisions:
            replica, counter = _split(decision)
            issued[replica] = max(counter + 1, issued.pop(replica, 0))
        end = issued.pop(replica)
        return self._as_buffers(key, max(present, end), issued, replica, end)

    def _as_buffers(self, key: int, counter: int, others: dict[int, int], replica: int, end: int = 0) -> dict[str, Tensor]:
        rows = [list(other) for other in others.items() if other[1]] + [[replica, 0 if end == counter else end]]
        tensor = partial(torch.tensor, dtype=torch.int64, device=self.stream.device)
        return {"stream": tensor([key, counter]), "replicas": tensor(rows)}

    def _load_from_state_dict(self, state_dict, prefix, *args):  # type: ignore[no-untyped-def]
        saved = state_dict.get(prefix + "replicas")
        if saved is not None and saved.dim() == 2:
            self.replicas = self.replicas.new_empty(saved.shape)
        self.stream = self.stream.clone()
        super()._load_from_state_dict(state_dict, prefix, *args)
