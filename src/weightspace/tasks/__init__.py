"""What is predicted of networks."""
