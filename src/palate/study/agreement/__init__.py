"""How far raters agree: with each other, with scorers, and with themselves."""
