"""From what people have to numbers: any context becomes a sparse row."""
