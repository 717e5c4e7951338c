"""What is limited: rules of the settings and of operators, and the guard against strange burns."""
