"""Models: features of what is seen and true, memories, actor and critic. They know spaces, not worlds."""

from asymrl.models.agent import Actor as Actor, Architecture as Architecture, Critic as Critic, History as History
