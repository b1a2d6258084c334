"""What a training run will take: time, memory, communication and money, on hardware that is here or not."""
