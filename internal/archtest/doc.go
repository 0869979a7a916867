// Package archtest holds tests about the code itself: who may import whom and why, sizes, package comments, and the list
// of modules that are linked into the binary. It has no code of its own.
package archtest
