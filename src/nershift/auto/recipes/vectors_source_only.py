"""No target labels, another language: word vectors that languages share, and the sources alone."""

from nershift.auto.recipe import Recipe, register

register(
    Recipe(
        "vectors_source_only",
        "a small tagger with the word vectors of a pretrained encoder, on the sources alone",
        "source_only",
        needs=("no labels", "sources", "encoder"),
        encoder_as="vectors",
    )
)
