"""Customer service of an online shop: status, cancel, return, address change."""
