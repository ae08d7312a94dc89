"""Learning beta in plain torch, without Lightning."""
