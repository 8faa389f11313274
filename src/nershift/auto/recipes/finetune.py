"""The sources first, then the target: pays where types are shared."""

from nershift.auto.recipe import Recipe, register

register(Recipe("finetune", "the sources first, then your labels", "finetune", needs=("labels", "sources")))
