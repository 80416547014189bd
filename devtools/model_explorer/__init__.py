"""An extension for Model Explorer: `model-explorer --extensions=devtools.model_explorer`."""
