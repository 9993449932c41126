"""The semantic core: keyed draws, rules, tasks, belief, the state machine and its grading.

Knows nothing of Gymnasium, of text, or of any one domain.
"""
