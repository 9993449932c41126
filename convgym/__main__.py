"""`python -m convgym` is the command `convgym`."""

from convgym.cli.main import app

if __name__ == "__main__":
    app(prog_name="convgym")
