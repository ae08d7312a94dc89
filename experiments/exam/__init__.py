"""The exam without a number to choose: classification tables played as bandits, in several units of the reward."""
