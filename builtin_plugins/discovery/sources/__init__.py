"""Where capabilities come from: manifests, skills, extensions, folders."""
