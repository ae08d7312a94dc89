"""The checksums of forged files are valid: what refuses them is what is wrong with their contents."""

import pytest

from experiments.trust.hostile import LOADERS
from experiments.trust.hostile_files import intact, sealed, unsealed


def test_intact_files_load_and_keep_their_checksum_when_it_is_forged(tmp_path):
    for file in intact(tmp_path):
        whole = file.path.read_bytes()
        assert sealed(unsealed(whole)) == whole
        assert unsealed(whole) != whole
        LOADERS[file.file_type](file.path)


def test_a_forged_number_passes_the_checksum_but_a_flipped_one_does_not(tmp_path):
    file = next(file for file in intact(tmp_path) if file.file_type == "network")
    whole = file.path.read_bytes()
    flipped = whole[:-1] + bytes([whole[-1] ^ 1])
    file.path.write_bytes(flipped)
    with pytest.raises(ValueError, match="sha256 does not match"):
        LOADERS["network"](file.path)
    file.path.write_bytes(sealed(unsealed(flipped)))
    LOADERS["network"](file.path)
