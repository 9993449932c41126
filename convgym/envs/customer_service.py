"""`ConvGym/CustomerService-v0`: the support desk of an online shop."""

from __future__ import annotations

from convgym.domains.customer_service.desk import CustomerServiceDesk
from convgym.envs.conversation_env import ConversationEnv, Domain


class CustomerServiceEnv(ConversationEnv):
    """A customer with a problem writes to a support desk; the agent answers."""

    def make_domain(self) -> Domain:
        """The desk."""
        return CustomerServiceDesk()
