"""Models: features of what is seen and true, memories, actor and critic. They know spaces, not worlds."""

from asymrl.models.agent import Actor as Actor, Critic as Critic, History as History
from asymrl.models.architecture import Architecture as Architecture
