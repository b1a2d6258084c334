"""Into production: export to ONNX and OpenVINO, engines, the HTTP server and its page."""
