"""A user played by a model on an empty stage: the model's text is the names of its acts."""

from dataclasses import replace

from single_task import DESK, USER_ACTS, U, draw_task

from convgym.desk.state import DeskState
from convgym.engine import acts
from convgym.engine.acts import Heard
from convgym.engine.episode import Episode
from convgym.language.models import CallableModel
from convgym.users.generative import ModelUser
from convgym.users.persona import TRAITS
from convgym.users.user_state import UserState

FINE, WRONG, OTHER = acts.FINE, acts.WRONG, acts.OTHER_OBJECT
ASKED = Heard(acts.CONFIRM, verdict=FINE)
TOLD = Heard(acts.TELL, 2)
DONE = Heard(acts.REPORT_DONE)
DENIED, DENIED_WRONGLY = Heard(acts.DENY, verdict=FINE), Heard(acts.DENY, verdict=WRONG)
OFFERED, OFFERED_WRONGLY = Heard(acts.OFFER, verdict=FINE), Heard(acts.OFFER, verdict=WRONG)


def wish(workflow):
    """The name of the act that asks for a workflow."""
    return f"request_{workflow}"


class Stage:
    """One episode without an environment.

    `name@k` in the model's text is a value of request k: it is read as `name` where that request
    is the present or the next one, and as `name_wrong` elsewhere, as a domain reads numbers.
    """

    def __init__(self, alternative=False, facts=(), task=None):
        self.task = task or draw_task("train", 1)
        self.words = ""
        self.episode = Episode(self.task, 5, 6, DESK.layout.row())
        wants = [DESK._knowledge(self.task, request) for request in self.task.requests]
        if task is None:
            wants = [replace(wants[0], alternative=alternative, facts=facts)]
        self.episode.desk = DeskState({}, len(DESK.v.slots), 0)
        self.episode.user = UserState((50,) * len(TRAITS), *wants)
        self.prompts = []
        model = CallableModel(self.speak, takes="messages")
        self.user = ModelUser(model, lambda episode: "You are a customer.", self.read, U)
        self.turn = None

    def speak(self, messages):
        self.prompts.append(messages)
        return self.words

    @staticmethod
    def read(episode, text):
        found = []
        for word in text.split():
            name, at, request = word.partition("@")
            near = int(request) in (episode.user.at, episode.user.at + 1) if at else True
            found.append(name if near else f"{name}_wrong")
        return [U[name] for name in found if name in U], ""

    def open(self, words="greet"):
        self.words = words
        self.turn = self.user.open(self.episode)
        return self.said

    def answer(self, words, *heard):
        self.words = words
        self.turn = self.user.answer(self.episode, heard)
        return self.said, self.turn.closed

    @property
    def said(self):
        return [USER_ACTS[act] for act in self.turn.acts]

    @property
    def state(self):
        return self.episode.user

    def notes(self):
        """What of the user's acts did not count."""
        return [entry.detail for entry in self.episode.ledger if entry.event == "user_act_ignored"]


def task_of(*wanted, known=range(5)):
    """The first task whose requests are these (workflow, effect); the effect "" is any.

    `known`: how its records may be known, as numbers of `convgym.desk.tasks.KNOWLEDGES`.
    """
    names = DESK.declaration.names
    for number in range(20_000):
        task = DESK.task("train", number)
        if len(task.requests) == len(wanted) and not task.impostor and all(
            names[request.workflow] == workflow
            and effect in ("", request.decision.effect)
            and request.knowledge in known
            for request, (workflow, effect) in zip(task.requests, wanted, strict=True)
        ):
            return task
    raise AssertionError(f"no task of {wanted}")


def names_of(task):
    """The workflows that a task asks for."""
    return [DESK.declaration.names[request.workflow] for request in task.requests]
