"""The methods of a file that hears, by the names of ExecuTorch's runners."""

ENCODER, TEXT_DECODER = "encoder", "text_decoder"
