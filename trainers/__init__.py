"""Trainers: adapters from ConvGym's environments and datasets to learning algorithms.

    functional   pure arithmetic that two trainers need
    online/      agents that learn while they talk
    offline/     agents that learn from recorded conversations
    llm/         language models that learn to talk
    alignment    every converter of recorded data beside a plain loop
    transfer/    from simulated to real users; may use the three above

`online`, `offline` and `llm` know nothing of each other, and `convgym` knows nothing of trainers.
"""
