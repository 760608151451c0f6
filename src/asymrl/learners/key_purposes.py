"""What random keys are for: the numbers that are folded into one key to make another for each purpose.

Numbers that are folded into the same key stand together and differ. Changing one changes the results of the seeds.
"""

# Folded into the key of an update, an evaluation or a round.
EPISODE_STARTS = 0
ACTIONS = 1
WORLD_STEPS = 2

# The same for worlds in Python.
STREAM_ACTIONS = 0
EPISODE_SEEDS = 1

# Folded into the seed's own key, by PPO.
STREAM_STARTS = 10

# Folded into the key of an update.
STREAM_STEPS = 11
STREAM_SIGNALS = 12
MINIBATCHES = 13
EVALUATION = 1_000_000
SIGNALS = 1_000_001
REPLAY_DRAWS = 2_000_000

# Added to a number and folded into the key of a run, where the numbers of updates are folded, too.
OTHER_RUNS = 5_000_000
