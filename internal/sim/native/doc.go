// Package native describes the native services of a cloud region: databases, caches, load
// balancers, private endpoints, functions in a VPC and file systems. Services are plain data; what
// this package adds is what the cloud itself makes of them: the names and owners of their
// interfaces, their host names, ARNs and tags, and how a balancer hands a flow on.
//
// It knows no world: which interfaces a service has, and which sees which, is reported by package
// aws. Everything here is a value or a pure function of values, and may be used concurrently as
// such.
package native
