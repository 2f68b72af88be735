"""What commands print: plans, explanations, migrations and simulations, as text and charts."""
