"""What is written from the code, by ``just docs`` and ``just schemas``: pages and schemas."""
