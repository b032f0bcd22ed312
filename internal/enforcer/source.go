package enforcer

import (
	"context"

	"k8s.io/apimachinery/pkg/watch"
)

// Resource names one of the three kinds of computed objects, as the API spells it.
type Resource string

// The computed resources that an enforcer watches.
const (
	NetworkPolicies Resource = "networkpolicies"
	AddressGroups   Resource = "addressgroups"
	AppliedToGroups Resource = "appliedtogroups"
)

// Resources lists them.
func Resources() []Resource { return []Resource{NetworkPolicies, AddressGroups, AppliedToGroups} }

// Source is where computed objects come from: a Client, or a store in the same process.
type Source interface {
	// Watch streams the objects of one kind that concern the enforcer key: every one as Added,
	// exactly one Bookmark, then changes. The stream ends when ctx does.
	Watch(ctx context.Context, r Resource, key string) (Stream, error)
}

// Stream is one watch. After an error the receiver stops it and watches anew; it then gets
// everything again.
type Stream interface {
	// Next waits for the next event. An error ends the stream.
	Next(ctx context.Context) (watch.Event, error)
	// Stop ends the stream. It may be called more than once.
	Stop()
}
