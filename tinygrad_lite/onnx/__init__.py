"""Models to and from ONNX files: `export(model, inputs, path)` and `import_(path)`. Needs the extra `onnx`."""

from tinygrad_lite.onnx.exporting import export
from tinygrad_lite.onnx.importing import OnnxModule, import_

__all__ = ["OnnxModule", "export", "import_"]
