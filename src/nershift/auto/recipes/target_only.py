"""The target's labels alone, no pretrained encoder: quick, and enough with many labels."""

from nershift.auto.recipe import Recipe, register

register(Recipe("target_only", "your labels alone", "target_only"))
