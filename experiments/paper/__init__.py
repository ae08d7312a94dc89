"""Tables and figures of the paper, and a report on which of its claims hold."""
