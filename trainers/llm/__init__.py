"""Language models that learn to talk: recorded conversations as chats and as tokens."""
