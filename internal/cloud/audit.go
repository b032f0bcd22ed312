package cloud

import "context"

// Call is one attempt of a call that changes something in a cloud: what the record of changes keeps
// of it.
type Call struct {
	Scope
	// OwnerID is the cloud's own account number; empty if it is not known yet.
	OwnerID string
	// Name is the cloud's own name of the call, for example "ModifyNetworkInterfaceAttribute".
	Name string
	// Objects are the IDs of what is changed. Of a group that is still to be created it is the
	// network and the name.
	Objects []string
	// Before and After are what the call changes and nothing else, as far as it is known.
	Before, After State
	// Policies are those that the call is made for, and Reason says in a few words why it is made.
	Policies []string
	Reason   string
	// By are the people who wrote the policies last, "unknown" for what nobody is known to have
	// written; empty if the call is for no policy.
	By []string
}

// State is the changed part of objects before or after a call. What a call does not concern is nil.
type State struct {
	// Name is that of a group that is created or deleted.
	Name string `json:"name,omitempty"`
	// Groups holds the groups of an interface.
	Groups []string `json:"groups,omitempty"`
	// Rules are those that the call adds, removes or turns into others, in words.
	Rules []string `json:"rules,omitempty"`
	// Routes are those that the call adds, removes or turns into others, or whether an interface
	// takes packets for other addresses, in words.
	Routes []string `json:"routes,omitempty"`
	// Tags are the tags that the call sets or removes, by object.
	Tags map[string]map[string]string `json:"tags,omitempty"`
}

// Outcome is what became of an attempt.
type Outcome struct {
	// Err is nil if the cloud has done it. Of class Unavailable it says that nobody knows whether
	// it has.
	Err *Error
	// RequestID is the cloud's own name of the request; empty if there was no answer.
	RequestID string
	// Created is the ID of a group that was created.
	Created string
}

// Cause is why operations are done and how things are before: what only their planner knows. It
// travels with the context, because one operation may become several calls.
type Cause struct {
	// Policies are those that the operation is made for.
	Policies []string
	// Groups are what the interface of the operation holds, and Tags the tags of its objects that
	// the operation sets or removes.
	Groups []string
	Tags   map[string]map[string]string
	// Sent, if set, is called once for every attempt of a call that changes something, by any
	// number of goroutines.
	Sent func()
}

type causeKey struct{}

// WithCause returns a context for operations that have this cause.
func WithCause(ctx context.Context, c Cause) context.Context {
	return context.WithValue(ctx, causeKey{}, c)
}

// CauseOf returns the cause that the context carries; the zero value without one.
func CauseOf(ctx context.Context) Cause {
	c, _ := ctx.Value(causeKey{}).(Cause)
	return c
}
