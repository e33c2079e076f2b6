"""Who is calling and what they may do; just above `llamaweb.lib`, below every other app."""
