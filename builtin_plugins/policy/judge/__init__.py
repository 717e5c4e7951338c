"""From a call to a verdict: the facts, the rules, and what came before."""
