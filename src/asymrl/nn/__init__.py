"""Models: features of observations and states, memories, actor and critic. They know spaces, not worlds."""

from asymrl.nn.agent import Actor as Actor, Critic as Critic
from asymrl.nn.architecture import Architecture as Architecture
from asymrl.nn.history import History as History
