"""What is allocated to pods."""
