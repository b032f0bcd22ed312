package cloud

import "context"

// Purpose says what a call to the cloud is for. Where callers share a rate, enforcement goes first.
type Purpose int

// The purposes. A context without a mark is for enforcement.
const (
	// Enforcement: somebody waits for a change in the cloud.
	Enforcement Purpose = iota
	// Inventory: the routine reading of what there is.
	Inventory
)

type purposeKey struct{}

// WithPurpose marks the calls made with the returned context.
func WithPurpose(ctx context.Context, p Purpose) context.Context {
	return context.WithValue(ctx, purposeKey{}, p)
}

// PurposeOf returns the mark of ctx.
func PurposeOf(ctx context.Context) Purpose {
	p, _ := ctx.Value(purposeKey{}).(Purpose)
	return p
}
