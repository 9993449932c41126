"""A run that `torchrun` starts: the embedded model learns a little, in double precision.

    python learns_on_ranks.py FOLDER OBJECTIVE

Each process writes its rows and its weights, and says which files it has written itself.
"""

import json
import sys
from pathlib import Path

import torch

from trainers.llm.embedded import embedded_folder
from trainers.llm.embedded.tuned import MAX_TURNS, SAMPLING, TUNED
from trainers.llm.language_model import LanguageModel
from trainers.llm.policy_config import PolicyOptimizerConfig
from trainers.llm.policy_optimizer import PolicyOptimizer
from trainers.llm.sampling import Sampling
from trainers.llm.text_environment import TextEnvironment

if __name__ == "__main__":
    folder, objective = Path(sys.argv[1]), sys.argv[2]
    torch.set_num_threads(1)
    model = LanguageModel.load(embedded_folder(), dtype="float64")
    environment = TextEnvironment(
        "ConvGym/OneRequest-v0", system="", kwargs={"topic": "status", "reward": "graded"}
    )
    config = PolicyOptimizerConfig.from_dict(
        {**TUNED, "iterations": 3, "seeds_per_iteration": 4, "objective": objective, "warmup": 0,
         "evaluate_every": 3, "evaluation_episodes": 6, "max_turns": MAX_TURNS}
    ).changed(sampling=Sampling(**SAMPLING))  # fmt: skip
    heard = []
    run = PolicyOptimizer(model, environment, config, [heard.append])
    rows = run.train(folder / "run.zip")
    torch.save(
        {"rows": rows, "heard": len(heard), "size": run.ranks.size,
         "weights": {n: p.detach() for n, p in model.trainable().items()}},
        folder / f"rank-{run.ranks.rank}.pt",
    )  # fmt: skip
    print(json.dumps({"rank": run.ranks.rank}))
