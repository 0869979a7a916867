// Package podnet is the pod network.
package podnet
