// Package register keeps the record by which the instances of one cluster inform one another. It
// promises that no instance overwrites a version that it has not read: every Store names the
// version that it replaces. A Register may be used by one goroutine at a time.
package register

import (
	"context"
	"errors"

	"github.com/nephele-io/nephele/internal/cloud/tenure"
)

// Register is where the record is kept: the cluster's own API, or its replacement in tests.
type Register interface {
	// Load returns the record and its version. A record that was never stored is empty.
	Load(ctx context.Context) (tenure.Record, string, error)
	// Store puts a record in the place of the version that Load or Store has returned last, and
	// returns the new version. Its error is ErrOvertaken if the record is another by now.
	Store(ctx context.Context, r tenure.Record, version string) (string, error)
}

// The errors of a Register that mean something; all others pass.
var (
	// ErrOvertaken: somebody else has stored a record.
	ErrOvertaken = errors.New("somebody else has written the record of instances")
	// ErrDenied: this process may not use the record.
	ErrDenied = errors.New("the record of instances may not be used")
)
