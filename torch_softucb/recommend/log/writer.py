"""The writer of a decision log: every decision with its propensity, and every reward, durable against a crash."""

import os
import threading
from pathlib import Path

import torch
from torch import Tensor

from torch_softucb.checks import check_integer
from torch_softucb.errors import JournalError
from torch_softucb.recommend._checks import check_feedback
from torch_softucb.recommend.log._checks import check_logged, check_pyarrow, check_served_values, flat_list
from torch_softucb.recommend.log.codec import Entry, encode_rewards
from torch_softucb.recommend.log.log_files import LogFiles
from torch_softucb.recommend.log.queue import Queued, encoded
from torch_softucb.recommend.log.reader import log_records
from torch_softucb.recommend.log.segments import Place
from torch_softucb.recommend.log.used_ids import UsedIds
from torch_softucb.recommend.serving import Served


class DecisionLog:
    """Writer of decisions and rewards: calls queue entries, ``commit`` returns once they are durable.

    Entries stay queued until they are durable. If a call commits (by itself or because the group is full) and fails, what it
    added is still queued: do not add it again. After a failed write every call raises :class:`JournalError` until
    :meth:`reopen`, or until the folder is opened by another DecisionLog, which does not have the queued entries.

    A log has one writer at a time, the process that opened it: it holds a lock on the folder until it closes the log, and a
    forked process cannot use it. Several threads may share a DecisionLog.

    Args:
        folder: folder of the log; created if it does not exist.
        group: number of queued decisions and rewards after which a call commits automatically.
        segment_bytes: size above which the next commit starts a new segment.

    Raises:
        JournalError: if another writer has the log open, or it is damaged.

    Example:
        >>> import tempfile
        >>> from torch_softucb import SoftUCBHead, SoftUCBPolicy
        >>> from torch_softucb.recommend import read_log
        >>> head = SoftUCBHead(torch.nn.Embedding(9, 2), SoftUCBPolicy(2))
        >>> with DecisionLog(tempfile.mkdtemp()) as log:
        ...     served = head.serve(head(torch.tensor([[1, 2, 3]])))
        ...     log.decisions(served)
        ...     log.commit()  # only now show the item
        ...     _ = head.feedback(served.id, torch.tensor([1.0]))
        ...     log.rewards(served.id, torch.tensor([1.0]))
        >>> read_log(log.folder).reward
        tensor([1.], dtype=torch.float64)
    """

    def __init__(self, folder: str | os.PathLike[str], *, group: int = 32, segment_bytes: int = 1 << 26) -> None:
        self.folder = Path(folder)
        self.group = check_integer("DecisionLog", "group", group, low=1)
        self.segment_bytes = check_integer("DecisionLog", "segment_bytes", segment_bytes, low=1)
        self._lock = threading.Lock()
        self._queue: list[Queued] = []
        self._queued_ids = UsedIds()
        self._marked = 0  # ticket of the last entry whose ids are among them
        self._pid = os.getpid()
        self._files = LogFiles(self.folder)

    @property
    def id(self) -> str:
        """Random id of the log, 32 hexadecimal digits; a checkpoint contains it for :func:`restart`."""
        return self._files.id

    @property
    def place(self) -> Place:
        """Position after the last commit; a checkpoint contains it for :func:`restart`."""
        return self._files.place

    @property
    def queued(self) -> int:
        """Number of decisions and rewards that are not durable yet."""
        return max(0, self._queue[-1].ticket - self._files.ticket) if self._queue else 0

    def decisions(
        self,
        served: Served,
        *,
        version: int = 0,
        context: Tensor | None = None,  # (N,) int64
        candidates: Tensor | None = None,  # (K,) or (N, K) int64
        features: Tensor | None = None,  # (K, d) or (N, K, d)
    ) -> None:
        """Add decisions. The tensors are read at the next commit: do not modify them before.

        A decision id is logged once: ids that are in the log or in its queue are refused. The ids of a head need little
        memory, because they are consecutive; if more than 16,000 gaps remain between them, old gaps count as logged.

        Args:
            served: result of :meth:`SoftUCBHead.serve`.
            version: version of the model.
            context: the caller's reference to each request.
            candidates: ids of all candidate items; those that the mask excluded are written as -1.
            features: features of all candidates, needed to learn and to evaluate from the log alone.
        """
        where = "DecisionLog.decisions"
        check_logged(where, served, version, context, candidates, features)
        ids = flat_list(served.id)
        if not ids:
            return
        check_served_values(where, served, ids)
        if candidates is None and features is not None:
            candidates = torch.arange(served.num_arms)
        if candidates is not None and served.mask is not None:
            candidates = candidates.masked_fill(~served.mask, -1)
        self._check_process(where)
        with self._lock:
            self._prepare(where)
            twice = self._files.ids.first_used(ids)
            if twice is None:
                twice = self._queued_ids.first_used(ids)
            if twice is not None:
                raise ValueError(
                    f"{where}: decision {twice} is logged already; log each decision once, and give every head on this log "
                    "its own replica number (SoftUCBHead.reseed), or restart it from the log; nothing was added"
                )
            self._add(Entry(served, version, context, candidates, features), ids, len(ids))

    def rewards(self, id: Tensor, reward: Tensor) -> None:  # (*N,), (*N,)
        """Add rewards of decisions in this log. Call it after :meth:`SoftUCBHead.feedback`, which refuses wrong ones."""
        ids, values = check_feedback("DecisionLog.rewards", id, reward, dtype=torch.float64)
        self._add_rewards("DecisionLog.rewards", ids, values)

    def drops(self, id: Tensor) -> None:  # (*N,)
        """Add decisions of this log that :meth:`SoftUCBHead.drop` has closed."""
        ids, values = check_feedback("DecisionLog.drops", id, torch.zeros(id.shape), dtype=torch.float64)
        self._add_rewards("DecisionLog.drops", ids, torch.full_like(values, torch.nan))

    def _add_rewards(self, where: str, ids: Tensor, values: Tensor) -> None:  # (n,), (n,)
        self._check_process(where)
        with self._lock:
            self._prepare(where)
            unknown = next((id for id in ids.tolist() if id not in self._files.ids and id not in self._queued_ids), None)
            if unknown is not None:
                raise ValueError(
                    f"{where}: decision {unknown} is not in this log; log the decision first; nothing was added"
                )
            if len(ids):
                self._add(encode_rewards(ids, values), [], len(ids))

    def _check_process(self, where: str) -> None:
        if os.getpid() != self._pid:
            raise JournalError(
                f"{where}: the log in {self.folder} was opened by process {self._pid}, and this is process {os.getpid()}; "
                "open the log after the fork, in one process"
            )

    def _prepare(self, where: str) -> None:
        """Check that the log is usable, and complete what a signal may have interrupted; the lock is held."""
        self._files.check_open(where, self.queued)
        self._settle()

    def _settle(self) -> None:
        """Empty the queue if it is durable; otherwise complete the set of its ids. A signal may have come in between."""
        if not self._queue:
            return
        if self._queue[-1].ticket <= self._files.ticket:
            self._files.ids.add([id for queued in self._queue for id in queued.ids])
            self._queue, self._queued_ids = [], UsedIds()
        elif self._marked < self._queue[-1].ticket:
            for queued in self._queue:
                self._queued_ids.add(queued.ids)
            self._marked = self._queue[-1].ticket

    def _add(self, entry: Entry | bytes, ids: list[int], count: int) -> None:
        last = self._queue[-1].ticket if self._queue else self._files.ticket
        self._queue.append(Queued(entry, ids, count, last + count))
        self._queued_ids.add(ids)
        self._marked = last + count
        if last + count - self._files.ticket >= self.group:
            self._commit()

    def commit(self) -> None:
        """Write everything added so far and return once it is durable."""
        self._check_process("DecisionLog.commit")
        with self._lock:
            self._prepare("DecisionLog.commit")
            self._commit()

    def _commit(self) -> None:
        self._files.roll(self.segment_bytes)
        if self._queue:
            self._files.commit(list(encoded(self._queue)), self._queue[-1].ticket)
            self._settle()

    def seal(self) -> None:
        """Convert all segments so far to Parquet files and start a new segment.

        If it fails, the log goes on with the segments that it has.
        """
        check_pyarrow("DecisionLog.seal")
        self._check_process("DecisionLog.seal")
        with self._lock:
            self._prepare("DecisionLog.seal")
            self._commit()
            self._files.roll(0)
            self._files.seal()

    def reopen(self) -> None:
        """Open the log again after a failed write, or after :meth:`close`.

        Entries that were queued are still queued, except for decisions that turn out to be in the log; the next commit
        writes them. A reward may then be in the log twice, which counts once. Does nothing if the log is usable.
        """
        self._check_process("DecisionLog.reopen")
        with self._lock:
            if not self._files.closed:
                return
            files = LogFiles(self.folder)
            queue: list[Queued] = []
            found: set[int] = set()
            try:
                for record_type, columns in log_records(self.folder, self._files.place):
                    if record_type == "decisions":
                        found.update(columns["id"].tolist())
            except BaseException:
                files.release()
                raise
            for queued in self._queue:
                if not queued.ids or queued.ids[0] not in found:
                    last = queue[-1].ticket if queue else 0
                    queue.append(queued._replace(ticket=last + queued.rows))
            self._files, self._queue, self._queued_ids, self._marked = files, queue, UsedIds(), 0

    def close(self) -> None:
        """Commit and close the log; does nothing if it is closed."""
        self._check_process("DecisionLog.close")
        with self._lock:
            if self._files.closed and self._files.failure is None:
                return
            self._prepare("DecisionLog.close")
            self._commit()
            self._files.close()

    def __enter__(self) -> "DecisionLog":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
