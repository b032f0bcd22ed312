package cloud

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Provider is one account of one cloud, all its regions. It is safe for concurrent use and holds no
// state but credentials.
type Provider interface {
	// Observe reads one region: the whole snapshot, or an error. It never returns part of the
	// truth, and it never returns an empty snapshot because of an error. Its errors are *Error.
	Observe(ctx context.Context, s Scope) (*Snapshot, error)
	// Apply does one op in one region. When it returns, the cloud's API has taken it. When packets
	// see it the cloud does not say: a step that relies on it waits as realize/wire says. It
	// returns the ID of the group for OpCreateGroup (also if the group existed already), else the
	// op's target. It is idempotent. Its errors are *Error; after an error of any class the caller
	// observes and plans anew.
	Apply(ctx context.Context, s Scope, op Op) (string, error)
	// Limits returns the quotas in force for the account in a region.
	Limits(ctx context.Context, s Scope) (Limits, error)
}

// Limits are the cloud's quotas that decide whether a plan fits. All counts are per region unless
// said otherwise.
type Limits struct {
	// RulesPerGroup bounds the rules of one group per direction and per address family.
	RulesPerGroup int
	// GroupsPerInterface bounds the groups that one interface holds.
	GroupsPerInterface int
	// RulesPerInterface bounds RulesPerGroup times GroupsPerInterface: the cloud grants no higher
	// quotas. 0 if it is not bounded.
	RulesPerInterface int
	// GroupsPerRegion bounds the groups of a region.
	GroupsPerRegion int
	// TagsPerResource bounds the tags of one resource.
	TagsPerResource int
	// WholeGroups is true if the rules of a group are written as one, so that OpSetRules changes
	// any number of them in one step.
	WholeGroups bool
	// Excepts is true if a rule can leave addresses out of a prefix list (Peer.Except).
	Excepts bool
}

// Class is what an error means to the caller, decided once per adapter.
type Class string

// The error classes.
const (
	// NotFound: what the op is about does not exist (or not yet: clouds are eventually consistent).
	NotFound Class = "NotFound"
	// Conflict: the cloud is in another state than the plan assumed; observe and plan again.
	Conflict Class = "Conflict"
	// Quota: a limit of the account is reached.
	Quota Class = "Quota"
	// Throttled: too many calls; the same op may be repeated later.
	Throttled Class = "Throttled"
	// Auth: the credentials are missing, wrong, expired or not allowed to do this.
	Auth Class = "Auth"
	// Unavailable: no answer, or the cloud failed inside; whether the op took effect is unknown.
	Unavailable Class = "Unavailable"
	// Terminal: the request itself is wrong; repeating it is useless.
	Terminal Class = "Terminal"
)

// Error is a classified failure of a cloud call.
type Error struct {
	Class Class
	// Call is the cloud's own name of the call, for example "AuthorizeSecurityGroupIngress".
	Call string
	// Code is the cloud's own error code, for example "DependencyViolation"; empty if there was no
	// answer.
	Code string
	// Denied is true if the credentials are good and do not allow the call; the class is Auth then.
	Denied bool
	// RetryAfter is how long the cloud asked to wait; zero if it did not say.
	RetryAfter time.Duration
	Err        error
}

func (e *Error) Error() string {
	if e.Code != "" {
		return fmt.Sprintf("%s: %s (%s): %v", e.Call, e.Code, e.Class, e.Err)
	}
	return fmt.Sprintf("%s (%s): %v", e.Call, e.Class, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ClassOf returns the class of err; Terminal for errors that no adapter classified, Unavailable for
// an ended context.
func ClassOf(err error) Class {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Class
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Unavailable
	default:
		return Terminal
	}
}
