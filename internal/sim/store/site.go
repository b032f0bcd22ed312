package store

import (
	"slices"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
)

// Site is one account in one region, as the calls on it work on it. What it gives out belongs to
// the Store: it may be read within Read and changed within Mutate, and is not kept after them.
type Site struct {
	// Account is the id of the account, Region the name of the region.
	Account, Region string
	// Data are the resources of the account in the region.
	Data *aws.Resources

	store *Store
	own   *holdings
	cause *aws.Cause
}

// SiteOf finds a region of an account. An unknown account gives AuthFailure, a region that is not
// enabled for it OptInRequired.
func SiteOf(w *Store, account, region string) (*Site, error) {
	w.state.RLock()
	defer w.state.RUnlock()
	a, ok := w.accounts[account]
	if !ok {
		return nil, &aws.Error{Code: "AuthFailure", Message: "AWS was not able to validate the provided access credentials", HTTPStatus: 401}
	}
	at := scope{account, region}
	if w.regions[at] == nil || !slices.Contains(a.Regions, region) {
		return nil, &aws.Error{
			Code: "OptInRequired", Message: "You are not subscribed to this service. Region '" + region + "' is not enabled for account " + account + ".",
			HTTPStatus: 401,
		}
	}
	return w.site(at), nil
}

func (w *Store) site(at scope) *Site {
	d := w.regions[at]
	return &Site{Account: at.account, Region: at.region, Data: &d.Resources, store: w, own: d}
}

// For returns the same site; its mutations carry the cause.
func (r *Site) For(c *aws.Cause) *Site {
	out := *r
	out.cause = c
	return &out
}

// Mutate runs f under the write lock and, if f succeeds, the hooks. f must check everything before
// it changes anything; it returns the ids of what it changed. ErrNothingChanged of f is a success
// without a mutation.
func (r *Site) Mutate(action string, f func(now time.Time) (touched []string, err error)) error {
	return r.store.mutateFor(r.cause, scope{r.Account, r.Region}, action, f)
}

// Read runs f under the read lock, after the transitions that are due.
func (r *Site) Read(f func(now time.Time)) { r.store.read(f) }

// Judge decides about packets among the present resources of all accounts.
func (r *Site) Judge() *packet.Judge { return r.store.judge() }

// Zones are the availability zones of the region, by name.
func (r *Site) Zones() []aws.Zone { return r.own.zones }

// Quotas returns the quotas of the account.
func (r *Site) Quotas() aws.Quotas { return r.store.quotas(r.Account) }

// Visible is when a resource that is made now can be seen.
func (r *Site) Visible(now time.Time) time.Time { return now.Add(r.store.visibility) }

// Transition is how long states last that end by themselves.
func (r *Site) Transition() time.Duration { return r.store.transition }

// Later registers a transition of a resource from its present state after a delay.
func (r *Site) Later(now time.Time, delay time.Duration, id, from, to string) {
	r.store.later(now, delay, scope{r.Account, r.Region}, id, from, to)
}

// Peerings are the peering connections of all accounts, by id.
func (r *Site) Peerings() map[string]*aws.PeeringConnection { return r.store.peerings }

// IsSide reports whether a side of a peering connection is in this account and region.
func (r *Site) IsSide(s aws.PeeringVPC) bool { return s.Account == r.Account && s.Region == r.Region }

// Everywhere calls f with the resources of each account in each region.
func (r *Site) Everywhere(f func(*aws.Resources)) {
	for _, d := range r.store.regions {
		f(&d.Resources)
	}
}

// OfAccount are the resources of another account in the region; nil if it has none.
func (r *Site) OfAccount(id string) *aws.Resources {
	if d := r.store.regions[scope{id, r.Region}]; d != nil {
		return &d.Resources
	}
	return nil
}

// CompleteVPC gives a VPC its main route table and its default network ACL.
func (r *Site) CompleteVPC(v *aws.VPC) { r.own.completeVPC(v, v.Visible) }

// RunTokens are the RunInstances calls by their ClientToken.
func (r *Site) RunTokens() map[string]aws.RunToken { return r.own.runTokens }

// ListTokens are the ids of prefix lists by the ClientToken that they were made with.
func (r *Site) ListTokens() map[string]string { return r.own.listTokens }

// Made is the id of what an earlier call of an action with the same ClientToken made: a client that
// lost the answer asks again. It is empty if there was none.
func (r *Site) Made(action, token string) string {
	if token == "" {
		return ""
	}
	return r.own.clientTokens[action+" "+token]
}

// Remember notes what a call with a ClientToken made.
func (r *Site) Remember(action, token, id string) {
	if token != "" {
		r.own.clientTokens[action+" "+token] = id
	}
}
