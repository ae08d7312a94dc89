"""Report "Is learning worth it?": learned betas compared with tuned ones and with tuned baselines."""
