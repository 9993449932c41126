"""Text and acts: phrases out, tool calls and understanding in."""
