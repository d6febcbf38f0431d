"""What a node left: files found, unpacked, told apart; documents, and what carried the lines."""
