//! Configuration: parsed, validated, resolved.
