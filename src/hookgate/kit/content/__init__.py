"""Files that people write for models: read safely, and told what is wrong with them.

`yaml_reader` reads YAML without its surprises, `frontmatter` the head of a Markdown file,
`reading` opens nothing but small regular files inside their folder, `fields` reads typed
values out of a document, `problems` says what is wrong: file, line, found, expected, and
`watching` notices when files change.
"""
