"""A pretrained encoder and the target's labels alone."""

from nershift.auto.recipe import Recipe, register

register(
    Recipe("encoder_target_only", "a pretrained encoder, your labels alone", "target_only", needs=("labels", "encoder"))
)
