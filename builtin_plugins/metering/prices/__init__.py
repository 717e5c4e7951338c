"""What models cost: prices of the library genai-prices, under those of the settings."""
