"""The builtin plugin `dashboard`: a page that shows the gateway, served by itself."""
