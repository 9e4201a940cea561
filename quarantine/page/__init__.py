"""The web page: a skin over operations for people, in the API's process."""
