"""Technical support: six kinds of device, what breaks on them, and who can mend what."""
