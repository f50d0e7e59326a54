"""The hooks that users and plugins implement."""
