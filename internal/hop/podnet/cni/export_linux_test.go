package cni

// Run is Main with a hook before each step.
var Run = run
