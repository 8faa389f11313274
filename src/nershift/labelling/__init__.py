"""What to label: how many sentences are worth it (`curve`), and which come next (`next`)."""
