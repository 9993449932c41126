"""Tables of hand-written wordings, as the tests of each domain's words look at them."""

import re


def wordings(table):
    """(acts, text) of every wording of a table of acts by register."""
    return [
        (names, text)
        for names, by_register in table.items()
        for texts in by_register.values()
        for text in texts
    ]


def plain(text):
    """The words and placeholders of a wording alone: what two wordings are compared by."""
    return " ".join(re.findall(r"\{\w+\}|\w+", text.lower()))
