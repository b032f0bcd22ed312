package cloud

import (
	"context"
	"time"
)

// Prober can try what an account's credentials may do, without doing it.
type Prober interface {
	// Probe tries every permission that is needed, in a region, on the objects of a snapshot of it,
	// which may be nil. It changes nothing. An error means that nothing could be tried.
	Probe(ctx context.Context, s Scope, on *Snapshot) (Probed, error)
}

// Probed is what was found out about credentials.
type Probed struct {
	// Trials are in the order in which they were made.
	Trials []Trial
	// CloudTime is the cloud's own time when LocalTime was that of this machine; both zero if the
	// cloud did not say.
	CloudTime, LocalTime time.Time
}

// Trial is one permission that was tried.
type Trial struct {
	// Action is the cloud's name of the permission, for example "ec2:CreateTags", and On the kind
	// of object it was tried on.
	Action, On string
	// Denied is true if it is missing; Untried says why nothing is known.
	Denied  bool
	Untried string
}
