"""The base of all tools: the registry of active ones, their options, environment variables and reports."""
