"""Ways to play rounds: eagerly, under torch.compile, or in a C++ kernel."""
