"""What unlabelled text of the target adds: teacher and student."""
