"""Models: features of observations and states, memories, actor and critic. They know spaces, not worlds."""

from asymrl.models.agent import Actor as Actor, Critic as Critic
from asymrl.models.architecture import Architecture as Architecture
from asymrl.models.history import History as History
