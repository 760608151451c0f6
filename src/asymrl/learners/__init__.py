"""Learning: returns, losses and updates of parameters; one file per learner: `a2c`, `ppo` and `dqn`.

`state` is what a run consists of, `curve` its learning curve, `programs` the compiled updates that the engine calls.
The settings of a learner and the names of the paper's methods are in `asymrl.settings`.
"""
