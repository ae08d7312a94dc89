"""The decision log: write, seal and read.

A decision takes these forms on its way through the log::

    Served            the head's answer to a batch of requests, in torch       recommend/serving.py
      -> Entry        one call of DecisionLog.decisions, buffered              codec.py
      -> bytes        one record for all buffered entries of the same layout   codec.py, written by journal.py
      -> Columns      the numpy columns of one record, or of a Parquet file    codec.py, parquet.py, foreign_table.py
      -> LoggedDecisions   the tensors of a whole log, with the rewards        logged_decisions.py

Writing: ``writer.py`` queues entries (``queue.py``) and refuses ids that it has (``used_ids.py``), ``log_files.py`` owns the
lock and the segments, ``journal.py`` writes the frames of ``frames.py`` through ``exclusive_file.py``, and ``parquet.py``
seals segments. Reading: ``reader.py`` reads logs, ``segment_reader.py`` one segment, ``parquet_bytes.py`` checks Parquet
files, and ``salvage.py`` reads damaged logs. ``segments.py`` names the files, and ``manifests.py`` has the small JSON files
that state what is durable. Parquet needs pyarrow, which is imported only when a segment is sealed or a Parquet file is read.
"""
