"""The router: text in, the arm out, by an agent of the service that learns from thumbs and silence."""
