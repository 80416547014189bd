"""The methods of a file that hears, by the names of ExecuTorch's runners."""

ENCODER, TEXT_DECODER = "encoder", "text_decoder"
TEXT_VERIFIER = "text_verifier"  # the decoder of several tokens at once: no runner of others has it
SPEECH_DETECTOR = "speech_detector"  # where there is something to hear
