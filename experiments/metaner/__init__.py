"""The tables and figures of MetaNER."""
