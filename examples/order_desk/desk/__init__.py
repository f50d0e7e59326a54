"""The order desk: an agent made of rules that answers questions about a shop from its database."""
