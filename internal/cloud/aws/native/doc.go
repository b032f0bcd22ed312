// Package native reads the native services of an AWS account, such as databases, caches, load
// balancers and file systems, and sets their groups and tags by the APIs of the services: AWS lets
// only the service itself change its interfaces.
//
// It owns which interfaces are of which service, and what the APIs have said. It promises that a
// service whose API fails keeps what was last known of it, that what it remembers of its own groups
// is not believed once we have written to it and not read it since, and that nothing that the owner
// has put off to a maintenance window is applied. It calls with what Conn gives it, and knows
// nothing of VMs.
//
// Methods of Services are safe for concurrent use.
package native
