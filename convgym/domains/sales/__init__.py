"""Sales: a buyer with needs, a budget and a price at which they walk away writes to a shop."""
