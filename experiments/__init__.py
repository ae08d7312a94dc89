"""The paper's experiments: what is played (settings), how (play), and what is made of it (studies, figures, report)."""
