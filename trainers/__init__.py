"""Trainers: adapters from ConvGym's environments and datasets to learning algorithms.

    functional   pure arithmetic that two trainers need
    callbacks    what listens while a learner learns
    archive      weights and states in one file, JSON beside safetensors
    online/      agents that learn while they talk
    offline/     agents that learn from recorded conversations
    llm/         language models that learn to talk
    alignment    every converter of recorded data beside a plain loop
    toy_*        a conversation with known values, in acts and in tokens, to test learners on
    transfer/    from simulated to real users; may use the three above

`online`, `offline` and `llm` know nothing of each other, and `convgym` knows nothing of trainers.
"""
