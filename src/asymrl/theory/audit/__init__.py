"""Trained actors and critics under exact arithmetic.

    >>> from asymrl.theory.audit import TrainedActor, audit_critic
    >>> audit = audit_critic(world, actor, critic, settings)
    >>> audit.rms(audit.bias), audit.rms(audit.fit)

`TrainedActor(actor)` makes a trained network a policy that `asymrl.theory.analyse` can follow; `audit_critic` compares
what a trained critic says with the exact values of its own policy.
"""

from asymrl.theory.audit.critic_audit import Audit as Audit, audit_critic as audit_critic
from asymrl.theory.audit.trained_networks import TrainedActor as TrainedActor, critic_values as critic_values
