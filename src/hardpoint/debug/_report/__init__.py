"""Reports about a run, made from its trace: reading (`trace_data`), `figures`, the `page` and its `charts`."""
