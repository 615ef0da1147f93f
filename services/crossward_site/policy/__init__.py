"""What a site refuses, approves by itself, or asks its steward; and the charge, which is measured by it once more."""
