package cloud

import (
	"context"
	"time"
)

// This file holds what a Provider may offer beyond Provider itself: to tell of changes, to read
// less, and to read only what has changed. A user of a Provider asks for these by type assertion
// and can do without.

// Change is a hint that something in an account may be different now. It is no truth: it may come
// late, twice, in any order, or never.
type Change struct {
	// Region is where.
	Region string
	// IDs are what may have changed: VMs, interfaces, groups, networks, peerings and prefix lists,
	// by the cloud's own ids. None means that it cannot be told, so that the region has to be read
	// whole.
	IDs []string
	// Author is the author of the change; zero if the event does not say.
	Author Author
}

// Author is the author of a change in the cloud, as the cloud names it.
type Author struct {
	// Name is that of the caller (AWS: the ARN of the user or of the assumed role, or the host name
	// of a service).
	Name string
	// Call is the cloud's name of the call, for example "AuthorizeSecurityGroupIngress".
	Call string
	// At is when the cloud took the call, by its own clock.
	At time.Time
	// Ours is true if the caller used our own credentials.
	Ours bool
}

// Hearer takes what a Listener hears. Its methods must not block; they are called from one
// goroutine per queue.
type Hearer interface {
	// Heard takes changes. When it returns they need not be told again.
	Heard([]Change)
	// Proven says that a call of ours in a region, which was answered at that time, has come back
	// as an event. As a rule, what others did until then has come as well.
	Proven(region string, at time.Time)
	// Listening says whether a queue can be read, nil for yes. It is called after every attempt.
	// The error is an *Error.
	Listening(queue string, err error)
}

// Listener is a Provider that is informed of changes by the cloud.
type Listener interface {
	// Listen hands over what it hears until ctx ends. A queue that fails is tried again; Listen
	// returns only when ctx has ended, and at once if the account has no queue. At most one Listen
	// runs at a time.
	Listen(ctx context.Context, h Hearer)
}

// Refresher is a Provider that can bring a snapshot up to date in part.
type Refresher interface {
	// Refresh returns last with the objects of these ids, and what hangs together with them, as
	// they are now. Ids that the cloud does not know are gone. The result is what Observe would
	// have returned, if nothing but these objects has changed since last; it keeps the time of
	// last, because the rest is as old as that. Where it takes fewer calls it reads the region
	// whole, and the time is that of the reading then. last is not changed. Errors are *Error, and
	// nothing is returned then.
	Refresh(ctx context.Context, last *Snapshot, ids []string) (*Snapshot, error)
}

// NetworkLister is a Provider that can read the networks of a region, and nothing else.
type NetworkLister interface {
	// Networks returns what Observe would show of the region's networks. Errors are *Error.
	Networks(ctx context.Context, s Scope) ([]Network, error)
}

// NetworkMatch names networks by id, by name or by both.
type NetworkMatch struct {
	ID, Name string
}

// Narrower is a Provider that can leave out what does not matter.
type Narrower interface {
	// Narrow returns the same account, whose snapshots show all networks and peerings, but VMs,
	// interfaces and groups only in the networks that are named, in those that hold something of
	// ours, and in their peers in the region: all that enforcement in the former can depend on.
	Narrow(networks []NetworkMatch) Provider
}
