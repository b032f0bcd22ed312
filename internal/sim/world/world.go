package world

import (
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/aws/service"
	"github.com/nephele-io/nephele/internal/sim/store"
)

// World is the state of the simulated clouds. See the package comment for its promises and its
// concurrency contract.
type World struct{ *store.Store }

// New builds a World from a State, which it copies. Every inconsistency is reported, joined in one
// error; see State.Check.
func New(s aws.State, o store.Options) (*World, error) {
	x, err := store.Open(s, o, func(at *store.Site) error { return service.ServicesAt(at).EquipAll() })
	if err != nil {
		return nil, err
	}
	return &World{x}, nil
}

// Region is a handle to the objects of one account in one region. Handles are cheap and stay good
// as long as their World.
//
// The describes of what has no part of its own and the calls about tags are its methods; the others
// are the calls of its parts.
type Region struct{ s *store.Site }

// Region returns the handle for a region of an account. An unknown account gives AuthFailure, a
// region that is not enabled for it OptInRequired.
func (w *World) Region(account, region string) (*Region, error) {
	s, err := store.SiteOf(w.Store, account, region)
	if err != nil {
		return nil, err
	}
	return &Region{s}, nil
}

// Account is the id of the owning account.
func (r *Region) Account() string { return r.s.Account }

// Name is the name of the region.
func (r *Region) Name() string { return r.s.Region }

// For returns a handle to the same region whose mutations carry the cause.
func (r *Region) For(c *aws.Cause) *Region { return &Region{r.s.For(c)} }

// Options are the injected parts and the knobs of a World.
type Options = store.Options
