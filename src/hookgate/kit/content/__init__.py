"""Files that people write for models: read safely, and told what is wrong with them.

`yaml_reader` reads YAML without its surprises, `frontmatter` the head of a Markdown file, `fields`
reads typed values out of a document. `files` opens nothing but small regular files inside their
folder, and writes whole ones. `folders` keeps what folders hold up to date: read, watched,
compared and published. `watch` notices when files change, `workspaces` knows what a workspace
brings, and `problems` says what is wrong: file, line, found, expected.
"""
