"""The files of a log that is open for writing: the lock of the folder, the active journal, and what is durable."""

from collections.abc import Sequence
from pathlib import Path

from torch_softucb.errors import JournalError
from torch_softucb.recommend.log.codec import decision_ids
from torch_softucb.recommend.log.exclusive_file import ExclusiveFile
from torch_softucb.recommend.log.journal import Journal, read_journal
from torch_softucb.recommend.log.manifests import Durable, load_durable, save_durable
from torch_softucb.recommend.log.segment_reader import check_journal, decoded
from torch_softucb.recommend.log.segments import Place, complete_segments, is_sealed, segment_path, segments
from torch_softucb.recommend.log.used_ids import UsedIds


class LogFiles:
    """The files of a log, locked from construction to :meth:`close` or to the first failed write.

    Args:
        folder: folder of the log; created if it does not exist.

    Attributes:
        ids: decision ids in the log.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = ExclusiveFile(folder / "lock")
        try:
            self._durable = load_durable(folder, create=not segments(folder))
            numbers = complete_segments(folder, self._durable)
            self.ids = UsedIds(self._durable.ids)
            for number in numbers[max(0, self._durable.segment - 1) :]:
                self._collect_ids(number, last=number == numbers[-1])
            last = numbers[-1] if numbers else 1
            number = last + is_sealed(folder, last)
            self._rolling = False
            self._next: Journal | None = None
            self._active = number, self._open(number, ticket=0)
        except BaseException:
            self._lock.close()
            raise

    def _open(self, number: int, *, ticket: int) -> Journal:
        size = self._durable.size if number == self._durable.segment else 0
        path, log = segment_path(self.folder, number), bytes.fromhex(self.id)
        return Journal(path, log=log, segment=number, durable=size, ticket=ticket)

    def _collect_ids(self, number: int, *, last: bool) -> None:
        """Add the decision ids of a segment that may have more than ``log.json`` knows."""
        if is_sealed(self.folder, number):
            if number > self._durable.segment:
                raise JournalError(
                    f"{self.folder / 'log.json'}: is older than the log, whose segment {number} is sealed; restore both "
                    "from one copy"
                )
            return
        path = segment_path(self.folder, number)
        contents = read_journal(path)
        if not last:
            check_journal(path, contents, self._durable, number, last=False)
        for group in contents.groups:
            for record in group:
                self.ids.add(decision_ids(record))

    @property
    def id(self) -> str:
        """Id of the log."""
        return self._durable.log

    @property
    def place(self) -> Place:
        """Position after the last commit."""
        number, journal = self._active
        return Place(number, journal.end.records)

    @property
    def ticket(self) -> int:
        """Ticket of the last entry that is durable."""
        return self._active[1].ticket

    @property
    def closed(self) -> bool:
        """Whether nothing more can be written, because the log is closed or a write has failed."""
        return self._lock.closed

    @property
    def failure(self) -> OSError | None:
        """The error of the write that has failed."""
        return self._active[1].failure

    def check_open(self, where: str, queued: int) -> None:
        """Raise if the log is closed or a write has failed."""
        if self.failure is not None:
            raise JournalError(
                f"{where}: a write to the log in {self.folder} has failed ({self.failure}); what was committed before is "
                f"safe, and {queued} decisions and rewards are still queued; make room and call reopen()"
            ) from self.failure
        if self.closed:
            raise JournalError(f"{where}: the log in {self.folder} is closed; call reopen(), or use another DecisionLog")

    def commit(self, records: Sequence[bytes], ticket: int) -> None:
        """Write records and return once they are durable."""
        try:
            self._active[1].commit(records, ticket)
        finally:
            self._release_if_failed()

    def _release_if_failed(self) -> None:
        if self.failure is not None:
            self._lock.close()

    def _finish(self) -> None:
        """Close the active segment with its mark, and note that it is durable."""
        number, journal = self._active
        try:
            journal.finish()
        finally:
            self._release_if_failed()
        durable = Durable(self.id, number, journal.end.records, journal.end.size, tuple(self.ids.ranges))
        save_durable(self.folder, durable)
        self._durable = durable

    def roll(self, segment_bytes: int) -> None:
        """Start a new segment if the active one has records and is larger than this.

        If that fails, it is tried again before the next commit: the new file may exist, so the old one is complete.
        """
        number, journal = self._active
        if not self._rolling and (journal.end.size <= segment_bytes or not journal.end.records):
            return
        self._finish()
        self._rolling = True
        if self._next is None:
            self._next = self._open(number + 1, ticket=journal.ticket)
        self._active, self._next, self._rolling = (number + 1, self._next), None, False
        journal.release()

    def seal(self) -> None:
        """Convert all segments before the active one to Parquet files."""
        from torch_softucb.recommend.log.parquet import seal_segment

        for number in segments(self.folder):
            path = segment_path(self.folder, number)
            if number < self._active[0] and path.exists():
                contents = read_journal(path)
                check_journal(path, contents, self._durable, number, last=False)
                seal_segment(self.folder, number, self.id, decoded(path, contents))

    def close(self) -> None:
        """Close the active segment and release the lock."""
        self._finish()
        self.release()

    def release(self) -> None:
        """Close the files as they are."""
        self._active[1].release()
        self._lock.close()
