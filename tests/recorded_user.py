"""The fitted user that tests of environments load; run it to write the file anew.

    PYTHONPATH=.:tests python tests/recorded_user.py
"""

from pathlib import Path

from twin_user import drawn_truth, twin_log

RECORDED = str(Path(__file__).parent / "data" / "recorded_user.npz")


def main():
    from convgym.calibration.calibration import calibrate

    calibrate(twin_log(drawn_truth(5), 60, 5), holdout=0.35).save(RECORDED)


if __name__ == "__main__":
    main()
