"""Every online algorithm by the name that commands use."""

from __future__ import annotations

from trainers.online.a2c import A2CConfig
from trainers.online.dqn import DQNConfig
from trainers.online.maskable_ppo import MaskablePPOConfig
from trainers.online.ppo import PPOConfig
from trainers.online.qr_dqn import QRDQNConfig
from trainers.online.recurrent_ppo import RecurrentPPOConfig
from trainers.online.trpo import TRPOConfig

CONFIGURATIONS = {
    "ppo": PPOConfig,
    "maskable_ppo": MaskablePPOConfig,
    "recurrent_ppo": RecurrentPPOConfig,
    "dqn": DQNConfig,
    "qr_dqn": QRDQNConfig,
    "a2c": A2CConfig,
    "trpo": TRPOConfig,
}
