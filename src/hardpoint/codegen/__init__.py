"""Generate the adapters' C++ at build time from the operator tables and the installed framework's tables."""
