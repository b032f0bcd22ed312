// Package compute has the calls of EC2 about instances, their network interfaces and launch
// templates: running and stopping, attaching, addresses, and which groups an interface holds.
//
// Each call is atomic, answers with copies, and refuses with an *aws.Error as the cloud does. An
// instance takes on its next state when store.Options.TransitionDelay has passed, which the Store
// sees to.
//
// Concurrency: that of store.Store. The values of this package only point to a Site.
package compute
