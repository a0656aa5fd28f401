"""Reports about a run, computed from its trace: reader (`trace_data`), `figures`, the HTML `page` and its `charts`."""
