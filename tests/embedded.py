"""What tests of embeddings share: domains, an encoder that notes, candidates made once."""

from functools import cache

import numpy as np
from driven import LIBRARY

from convgym.domains.catalogue import domain_called
from convgym.envs.candidates import Candidates
from convgym.envs.text_vectors import text_vectors

HOTEL = LIBRARY.replace("library", "hotel")
DOMAINS = ("customer-service", "sales", "technical-support", LIBRARY, HOTEL)
DESK = "ConvGym/CustomerService-v0"
LIBRARY_ID = "ConvGym/OwnDomain-v0"
BOTH = {"observation": "embedding", "action": "embedding"}


class Letters:
    """An encoder that notes what it is asked: where each of 64 letters stands, unscaled."""

    name, dim = "letters", 64

    def __init__(self):
        self.calls = []

    def encode(self, texts):
        self.calls.append(list(texts))
        codes = [np.frombuffer(text.encode("utf-32-le"), "<u4") % 64 for text in texts]
        places = [np.bincount(c, 1.0 + np.arange(len(c)), minlength=64) for c in codes]
        return np.array(places, dtype=np.float32).reshape(-1, 64)


@cache
def candidates_of(domain):
    return Candidates(domain_called(domain), text_vectors("hashed"))
