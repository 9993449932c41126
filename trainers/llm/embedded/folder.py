"""Where the embedded model lies: `model/`, a folder as transformers reads it, in the package.

    model.safetensors   half a million weights in half precision
    config.json         a Llama with tied embeddings
    tokenizer.json      byte-level BPE of 1,000 tokens, one for every handle
    chat_template.jinja one token a role

It speaks for the agent of `ConvGym/OneRequest-v0` and for nobody else. Knows nothing of torch.
"""

from __future__ import annotations

from pathlib import Path

from convgym.errors import DatasetError

WEIGHTS = "model.safetensors"


def embedded_folder() -> Path:
    """The folder of the embedded model, for `LanguageModel.load` or transformers' auto classes.

    Load it with `dtype="float32"`: half precision saves room, and is no precision to learn in.
    Raises DatasetError where the installation lacks it.
    """
    folder = Path(__file__).parent / "model"
    if not (folder / WEIGHTS).is_file():
        raise DatasetError(
            f"{folder} holds no {WEIGHTS}; install convgym from a wheel, or make the model with "
            "python scripts/make_embedded_model.py"
        )
    return folder
