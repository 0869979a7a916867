package cli

// version is set by the build (-ldflags -X).
var version = "dev"
