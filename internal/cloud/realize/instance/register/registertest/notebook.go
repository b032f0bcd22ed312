// Package registertest has an register.Register for tests.
//
// A Notebook may be used by any number of goroutines.
package registertest

import (
	"context"
	"fmt"
	"sync"

	"github.com/nephele-io/nephele/internal/cloud/realize/instance/register"
	"github.com/nephele-io/nephele/internal/cloud/tenure"
)

// Notebook is a Register in memory: the API of a cluster, and what it keeps. Its fields may be used
// while it is locked.
type Notebook struct {
	sync.Mutex
	Record  tenure.Record
	Version int
	// Denied makes every use of it fail with register.ErrDenied.
	Denied bool
}

// Load implements register.Register.
func (n *Notebook) Load(context.Context) (tenure.Record, string, error) {
	n.Lock()
	defer n.Unlock()
	if n.Denied {
		return tenure.Record{}, "", register.ErrDenied
	}
	return tenure.ParseRecord(n.Record.Data()), fmt.Sprint(n.Version), nil
}

// Store implements register.Register.
func (n *Notebook) Store(_ context.Context, r tenure.Record, version string) (string, error) {
	n.Lock()
	defer n.Unlock()
	if n.Denied {
		return "", register.ErrDenied
	}
	if version != fmt.Sprint(n.Version) {
		return "", register.ErrOvertaken
	}
	n.Record, n.Version = tenure.ParseRecord(r.Data()), n.Version+1
	return fmt.Sprint(n.Version), nil
}

// Now is a copy of the record.
func (n *Notebook) Now() tenure.Record {
	r, _, _ := n.Load(context.Background())
	return r
}

// Copied is the Notebook of a cluster that was made by copying this one's data.
func (n *Notebook) Copied() *Notebook { return &Notebook{Record: n.Now()} }
