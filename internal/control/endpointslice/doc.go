// Package endpointslice keeps EndpointSlices and Endpoints in step with Services and Pods: it decides (Desired, Mirror,
// DesiredEndpoints, Derive: pure, any machine) and writes (Controller, through client-go). It touches only objects whose
// managed-by label is its own, or those of the controllers it takes over when told to. It watches nothing but v1
// Endpoints; Services, Pods, Nodes and slices come in by snapshot.
package endpointslice
