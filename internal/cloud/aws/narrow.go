package aws

import (
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/bounds"
	"github.com/nephele-io/nephele/internal/cloud/aws/values"
)

// The most values that are put into one filter; the cloud takes 200 over all filters of a call.
const (
	filterValues  = 200
	windowFilters = 150
)

// window names the networks that matter.
type window []cloud.NetworkMatch

// Narrow implements cloud.Narrower.
func (p *Provider) Narrow(networks []cloud.NetworkMatch) cloud.Provider {
	return &Narrowed{Provider: p, window: append(window{}, networks...)}
}

// Narrowed is a Provider that reads the networks that matter only; see cloud.Narrower.
type Narrowed struct {
	*Provider
	window window
}

// Observe implements cloud.Provider.
func (n *Narrowed) Observe(ctx context.Context, s cloud.Scope) (*cloud.Snapshot, error) {
	return n.observe(ctx, s, n.window)
}

// Refresh implements cloud.Refresher. Everything is read if the window is another one now.
func (n *Narrowed) Refresh(ctx context.Context, last *cloud.Snapshot, ids []string) (*cloud.Snapshot, error) {
	if n.dearer(last, ids) || slices.ContainsFunc(ids, func(id string) bool { return values.KindOf(id) == values.PeeringID }) {
		return n.Observe(ctx, last.Scope)
	}
	before := n.window.choose(last, ownedNetworks(last.Groups))
	out, err := n.refresh(ctx, last, ids, before)
	if err != nil {
		return nil, err
	}
	if !maps.Equal(before, n.window.choose(out, ownedNetworks(out.Groups))) {
		return n.Observe(ctx, last.Scope)
	}
	return out, nil
}

func (w window) matches(n cloud.Network) bool {
	return slices.ContainsFunc(w, func(m cloud.NetworkMatch) bool {
		return (m.ID != "" || m.Name != "") && (m.ID == "" || m.ID == n.ID) && (m.Name == "" || m.Name == n.Name)
	})
}

// choose returns the networks whose content is read: those that match, those that hold something of
// ours, and the peers of both.
func (w window) choose(s *cloud.Snapshot, owned map[string]bool) map[string]bool {
	core := map[string]bool{}
	for _, n := range s.Networks {
		if w.matches(n) || owned[n.ID] || n.Tags[cloud.TagClaim] != "" {
			core[n.ID] = true
		}
	}
	all := maps.Clone(core)
	for _, p := range s.Peerings {
		for _, ends := range [][2]cloud.PeeringEnd{{p.A, p.B}, {p.B, p.A}} {
			if core[ends[0].NetworkID] && ends[1].Region == s.Region {
				all[ends[1].NetworkID] = true
			}
		}
	}
	return all
}

// ownedNetworks are the networks with a group that some controller of ours has made.
func ownedNetworks(groups []cloud.Group) map[string]bool {
	out := map[string]bool{}
	for i := range groups {
		if groups[i].Tags[cloud.TagCluster] != "" {
			out[groups[i].NetworkID] = true
		}
	}
	return out
}

// look reads the frame and opens the window.
func (r *reader) look(ctx context.Context, w window, snap *cloud.Snapshot, frame func(context.Context) error) error {
	if err := frame(ctx); err != nil {
		return err
	}
	if all := w.choose(snap, nil); len(all) == len(snap.Networks) {
		r.only = all // there is nothing else that something of ours could be in
		return nil
	}
	ours, err := r.groups(ctx, []types.Filter{filter("tag-key", cloud.TagCluster)})
	if err != nil {
		return err
	}
	r.only = w.choose(snap, ownedNetworks(ours))
	return r.p.kept.Add(r.region, -bounds.Sum(ours)) // they are read again with their networks
}

// blind reports that no network's content is to be read.
func (r *reader) blind() bool { return r.only != nil && len(r.only) == 0 }

// sees reports whether the content of a network is read. What is in no network (an instance that is
// going) is read with everything.
func (r *reader) sees(network string) bool { return r.only == nil || r.only[network] }

// filters lets the cloud leave out what we do not see, unless that takes too many words; sees
// decides in any case.
func (r *reader) filters() []types.Filter {
	if r.only == nil || len(r.only) > windowFilters {
		return nil
	}
	return []types.Filter{filter("vpc-id", slices.Sorted(maps.Keys(r.only))...)}
}
