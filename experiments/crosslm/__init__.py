"""The tables and figures of CrossLM."""
