"""How much a caller may ask for: requests, answers at a time, tokens; counted in Redis in one step,
for all web processes together."""
