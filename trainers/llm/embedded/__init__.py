"""The language model that comes with ConvGym; how it was made: scripts/make_embedded_model.py."""

from trainers.llm.embedded.folder import embedded_folder

__all__ = ["embedded_folder"]
