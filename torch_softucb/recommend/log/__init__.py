"""The decision log: write, seal and read.

A decision takes these forms on its way through the log::

    Served            the head's answer to a batch of requests, in torch       recommend/serving.py
      -> Entry        one call of DecisionLog.decisions, buffered              codec.py
      -> bytes        one record for all buffered entries of the same layout   codec.py, written by journal.py
      -> Columns      the numpy columns of one record, or of a Parquet file    codec.py, parquet.py, foreign_table.py
      -> LoggedDecisions   the tensors of a whole log, with the rewards        logged_decisions.py

``segments.py`` names the files, ``exclusive_file.py`` is the platform-specific part of writing them. Parquet needs pyarrow,
which is imported only when a segment is sealed or a Parquet file is read.
"""
