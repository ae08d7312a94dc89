"""Files with a SHA-256 checksum inside, verified before anything in them is parsed."""

from torch_softucb.checked_files.tensor_file import load_tensors, save_tensors
from torch_softucb.checked_files.torch_file import add_checksum, load_checked, open_checked, save_checked

__all__ = ["add_checksum", "load_checked", "load_tensors", "open_checked", "save_checked", "save_tensors"]
