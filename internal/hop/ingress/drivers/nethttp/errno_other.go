//go:build !unix

package nethttp

func isTransient(error) bool { return false }
