"""Every online learner in a size that learns a small task in seconds."""

from trainers.online.configurations import CONFIGURATIONS

ON_POLICY = {"n_envs": 8, "n_steps": 32, "hidden": (32,), "learning_rate": 3e-3, "discount": 0.98}
OFF_POLICY = {
    "n_envs": 8, "learning_starts": 200, "batch_size": 64, "hidden": (32,), "n_step_td": 2,
    "learning_rate": 4e-3, "target_update": 200, "discount": 0.95, "exploration_end": 0.02,
}  # fmt: skip
SMALL = {
    "ppo": {**ON_POLICY, "batch_size": 64, "n_epochs": 4},
    "maskable_ppo": {**ON_POLICY, "batch_size": 64, "n_epochs": 4},
    "recurrent_ppo": {**ON_POLICY, "batch_size": 64, "n_epochs": 4, "memory": 16},
    "a2c": {**ON_POLICY, "n_steps": 8},
    "trpo": {**ON_POLICY, "batch_size": 64, "target_kl": 0.05},
    "dqn": OFF_POLICY,
    "qr_dqn": {**OFF_POLICY, "n_quantiles": 8},
}
NAMES = sorted(CONFIGURATIONS)


def learner(name, **settings):
    """The learner of this name, with other settings where they are given."""
    return CONFIGURATIONS[name](**{**SMALL[name], **settings}).create()


def weights(policy):
    """All arrays of its network."""
    return [value.numpy().copy() for value in policy.model.policy.state_dict().values()]
