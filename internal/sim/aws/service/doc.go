// Package service has the native services of an account in a region: databases, balancers,
// endpoints and the like. What they are like is reported by package native; here they get
// interfaces, addresses and groups.
//
// A node of a service has an interface at all times: it is made with the service, replaced at a
// failover, and deleted with it. Each call is atomic and answers with copies.
//
// Concurrency: that of store.Store. The values of this package only point to a Site.
package service
