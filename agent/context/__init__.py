"""Makes the conversation fit: sizes, budgets, folding, summaries, overflow."""
