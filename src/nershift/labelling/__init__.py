"""What to do about labels: how many are worth their price (`curve`), and which come next (`next`)."""
