"""The pages that raters see."""
