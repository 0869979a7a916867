// Package status writes the addresses at which Ingresses are served into their status.loadBalancer: it decides (Desired:
// pure) and writes (Controller). A status that is there is replaced only by a better known one, never cleared: podway that
// restarts, or whose own address is pending for a moment, must not look like an outage to DNS controllers.
package status
