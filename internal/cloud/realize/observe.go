package realize

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// observation is what was read of an account at one moment.
type observation struct {
	// regions have their snapshots joined, and read are these as they were read.
	regions []plan.Region
	read    []*cloud.Snapshot
	// unread are the regions that could not be read, with the reason.
	unread map[string]error
	// provider is what it was read with, and touched what we have changed since, by region; nil
	// if that is not known.
	provider cloud.Provider
	touched  map[string][]string
}

// rereadAge is how old a whole reading may be for what we have not touched to be taken from it. To
// read a region whole is to read it in the place of a poll, so that it costs less the older the
// last reading is: from here on less than what we have touched does.
const rereadAge = 30 * time.Second

// see reads the account again after what is known, of which only what we have touched is read if
// that is enough.
func (w *worker) see(ctx context.Context, acct Account, known observation) (observation, error) {
	if out, ok := w.reread(ctx, acct, known); ok {
		return out, nil
	}
	return w.observe(ctx, acct)
}

// reread reads what we have touched since an observation. It is false if the account has to be read
// whole: because it is to be given back, which happens once and for all; because something else
// about it has changed; because too much time has passed; or because a region cannot be read so.
func (w *worker) reread(ctx context.Context, acct Account, known observation) (observation, bool) {
	refresher, able := acct.Provider.(cloud.Refresher)
	if !able || known.touched == nil || known.provider != acct.Provider || acct.Releasing || len(known.unread) > 0 || len(known.regions) != len(acct.Snapshots) {
		return observation{}, false
	}
	now := w.r.Clock.Now()
	out := observation{regions: slices.Clone(known.regions), read: slices.Clone(known.read), provider: known.provider}
	for i := range out.read {
		name := out.read[i].Region
		latest := acct.Snapshots[name]
		if latest == nil {
			return observation{}, false
		}
		// What others have read since has all that we knew, and what they know by events,
		// such as VMs that are new.
		if !acct.Pending[name] && !latest.ObservedAt.Before(out.read[i].ObservedAt) {
			out.read[i] = latest
		}
		if age := now.Sub(out.read[i].ObservedAt); age < 0 || age > rereadAge {
			return observation{}, false
		}
	}
	errs := make([]error, len(out.read))
	var wg sync.WaitGroup
	for i := range out.read {
		ids := known.touched[out.read[i].Region]
		wg.Go(func() {
			if len(ids) > 0 {
				out.read[i], errs[i] = call("Refresh", func() (*cloud.Snapshot, error) { return refresher.Refresh(ctx, out.read[i], ids) })
			}
			if errs[i] == nil {
				out.regions[i].Snapshot, errs[i] = call("Joined", func() (*cloud.Snapshot, error) { return out.read[i].Joined(), nil })
			}
		})
	}
	wg.Wait()
	return out, errors.Join(errs...) == nil
}

// whole reports whether everything that is needed is known. If not, another reading is needed, and
// no other goroutine may be about to make one.
func (o observation) whole() bool {
	return len(o.unread) == 0 && !slices.ContainsFunc(o.read, func(s *cloud.Snapshot) bool { return behind(s) != "" })
}

// behind is a service that we have written to and that could not be read since, so that it is left
// as it is whatever is wanted; empty if there is none.
func behind(s *cloud.Snapshot) string {
	for i := range s.Services {
		if s.Services[i].Behind {
			return s.Services[i].ID
		}
	}
	return ""
}

func (o observation) snapshots() []*cloud.Snapshot {
	var out []*cloud.Snapshot
	for _, r := range o.regions {
		out = append(out, r.Snapshot)
	}
	return out
}

// vmOf names the VM of an interface; "" if it has none.
func (o observation) vmOf(region, networkInterface string) string {
	for _, r := range o.regions {
		if r.Snapshot.Region != region {
			continue
		}
		if n := r.Snapshot.Interface(networkInterface); n != nil {
			return n.VMID
		}
	}
	return ""
}

// snapshots are the account's last ones.
func snapshots(a Account) []*cloud.Snapshot {
	var out []*cloud.Snapshot
	for _, region := range slices.Sorted(maps.Keys(a.Snapshots)) {
		out = append(out, a.Snapshots[region])
	}
	return out
}

// observe reads all regions of the account that were ever read. A region that cannot be read is
// left alone, and the others go on; it fails if none can be read, or if the account is to be given
// back, which happens as a whole.
func (w *worker) observe(ctx context.Context, acct Account) (observation, error) {
	names := slices.Sorted(maps.Keys(acct.Snapshots))
	regions := make([]plan.Region, len(names))
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() {
			scope := cloud.Scope{Account: w.key, Region: name}
			regions[i].Snapshot, errs[i] = call("Observe", func() (*cloud.Snapshot, error) { return acct.Provider.Observe(ctx, scope) })
			if errs[i] == nil {
				regions[i].Limits, errs[i] = call("Limits", func() (cloud.Limits, error) { return acct.Provider.Limits(ctx, scope) })
			}
		})
	}
	wg.Wait()
	out := observation{unread: map[string]error{}, provider: acct.Provider}
	for i, name := range names {
		if errs[i] != nil {
			out.unread[name] = errs[i]
			continue
		}
		out.read = append(out.read, regions[i].Snapshot)
		regions[i].Snapshot = regions[i].Snapshot.Joined()
		out.regions = append(out.regions, regions[i])
	}
	if len(out.regions) == 0 || acct.Releasing && len(out.unread) > 0 {
		return observation{unread: out.unread}, errors.Join(errs...)
	}
	for _, name := range slices.Sorted(maps.Keys(out.unread)) {
		w.r.Log.Error(out.unread[name], "Region cannot be read and is left as it is", "account", w.key, "region", name)
	}
	return out, nil
}
