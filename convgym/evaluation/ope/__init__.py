"""Off-policy evaluation: what a policy is worth by conversations that others had.

episodes, policy ─► LoggedPolicyData ─► evaluate_off_policy ─► OffPolicyReport
                    logged.py            off_policy.py          off_policy_report.py
"""
