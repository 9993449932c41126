"""`ConvGym/OwnDomain-v0`: a service desk that a folder of TOML files declares."""

from __future__ import annotations

from copy import copy
from typing import Any

from convgym.desk.folder import FolderDesk
from convgym.domains.catalogue import domain_called
from convgym.envs.conversation_env import ConversationEnv
from convgym.envs.domain import Domain
from convgym.errors import InvalidConfiguration


class OwnDomainEnv(ConversationEnv):
    """Somebody writes to a service desk of your own; the agent answers.

    ## Description
    The folder says what the desk deals in: accounts with a key and a secret, kinds of records,
    what can be asked for, and the rules that decide it. From that come tools, tasks with their
    splits, the policy document, the simulated customer, grading, and scripted agents up to an
    oracle. `convgym/desk/README.md` is the guide; a working folder takes less than 200 lines.

    ## Action Space
    As in `CustomerServiceEnv`; `action="act"` is `Discrete(n)`, n following from the folder.

    ## Observation Space
    As in `CustomerServiceEnv`; the cells of `features` are those of `env.unwrapped.domain.layout`.

    ## Starting State
    As in `CustomerServiceEnv`. A split for which the folder holds nothing out does not exist there.

    ## Rewards
    As in `CustomerServiceEnv`.

    ## Episode End
    As in `CustomerServiceEnv`.

    ## Information
    As in `CustomerServiceEnv`.

    ## Arguments
    | parameter | default | |
    |---|---|---|
    | `folder` | needed | path of the folder |

    All others are those of `CustomerServiceEnv`; no `reranker=True`, and a model cannot play the
    customer.

    ## Vectorized environment
    `gym.make_vec(...)` as the other ids.

    ## Version History
    * v0: first version. Scores belong to the folder as much as to the version.
    """

    def __init__(self, folder: str = "", **keywords: Any) -> None:
        if not isinstance(folder, str) or not folder:
            raise InvalidConfiguration(
                f"folder={folder!r}; give the path of a domain's folder, as in gym.make("
                '"ConvGym/OwnDomain-v0", folder="my_domain")'
            )
        self._folder = folder
        super().__init__(**keywords)

    def make_domain(self) -> Domain:
        """The folder's desk."""
        domain = copy(domain_called(self._folder))
        assert isinstance(domain, FolderDesk)
        return domain
