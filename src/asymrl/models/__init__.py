"""Models: features of what is seen and true, memories, actor and critic. They know spaces, not worlds."""

from asymrl.models.agent import Actor as Actor
from asymrl.models.agent import Architecture as Architecture
from asymrl.models.agent import Critic as Critic
from asymrl.models.agent import History as History
