"""The inner loop of MetaNER: first order, second order exactly, second order by differences."""
