package render

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
)

// Setting is what plans are described in: the zero value knows nothing.
type Setting struct {
	// Snapshots are the regions as they are before the first plan.
	Snapshots []*cloud.Snapshot
	// Failsafe are the flows that are allowed whatever policies say.
	Failsafe []plan.FailsafeFlow
	// Provisional says that new groups will have other names when the plan is made to be applied.
	Provisional bool
}

// Describer describes plans that follow one another.
type Describer struct {
	Setting
	vms    map[string]string   // names, by interface
	names  map[string]string   // of groups, by ID
	held   map[string][]string // groups, by interface, as the plans so far leave them
	labels map[string]string   // of new groups, by the IDs that they have in a model
}

// NewDescriber returns a Describer of plans that begin in the setting.
func NewDescriber(s Setting) *Describer {
	d := &Describer{Setting: s, vms: map[string]string{}, names: map[string]string{}, held: map[string][]string{}, labels: map[string]string{}}
	for _, snap := range s.Snapshots {
		names := map[string]string{}
		for i := range snap.VMs {
			names[snap.VMs[i].ID] = cmp.Or(snap.VMs[i].Name, snap.VMs[i].ID)
		}
		for i := range snap.Groups {
			d.names[snap.Groups[i].ID] = snap.Groups[i].Name
		}
		for i := range snap.Interfaces {
			n := &snap.Interfaces[i]
			d.vms[n.ID], d.held[n.ID] = names[n.VMID], n.GroupIDs
		}
	}
	return d
}

// Describe returns the plan with what the setting tells about it. The next plan is described as
// following it.
func (d *Describer) Describe(p plan.Plan) analysis.PlanDocument {
	out := analysis.PlanDocument{
		Account: p.Account, Partial: p.Partial, Summary: p.Summary(), Steps: make([]analysis.PlanStep, 0, len(p.Steps)), GroupNames: map[string]string{},
	}
	for _, st := range p.Steps {
		if st.Op.Kind == cloud.OpCreateGroup {
			id := model.PlannedID(st.Network, st.Op.Group.Name)
			if d.Provisional && d.labels[id] == "" {
				d.labels[id] = fmt.Sprintf("new-group-%d", len(d.labels)+1)
			}
		}
		described := d.step(st)
		for _, id := range slices.Concat([]string{described.Target}, described.GroupsBefore, described.Groups) {
			if name := d.names[id]; name != "" {
				out.GroupNames[id] = name
			}
		}
		out.Steps = append(out.Steps, described)
	}
	return out
}

func (d *Describer) step(st plan.Step) analysis.PlanStep {
	op := st.Op
	out := analysis.PlanStep{
		Region: st.Scope.Region, Network: st.Network, Kind: string(op.Kind), Target: op.Target, Others: op.Others, Name: d.group(model.PlannedID(st.Network, op.Group.Name)),
		Rules: d.rules(st, op.Rules), Replaced: d.rules(st, op.Replaced), Tags: op.Tags, Reason: op.Reason,
	}
	if op.Kind == cloud.OpSetRules { // what stays is no news
		out.Rules, out.Removed, out.Replaced = d.rules(st, op.Added()), d.rules(st, op.Removed()), nil
	}
	if strings.HasPrefix(op.Target, model.PlannedGroupID) {
		out.Target, out.Name = "", d.group(op.Target)
	}
	for _, p := range st.Policies {
		out.Policies = append(out.Policies, p.String())
	}
	for _, id := range op.Subjects() {
		if vm := d.vms[id]; vm != "" && !slices.Contains(out.VMs, vm) {
			out.VMs = append(out.VMs, vm)
		}
	}
	switch op.Kind {
	case cloud.OpCreateGroup:
		out.Tags, out.NameKnownWhenApplied = op.Group.Tags, d.Provisional
	case cloud.OpSetInterfaceGroups:
		after := slices.Clone(op.GroupIDs)
		for _, name := range op.GroupNames {
			after = append(after, model.PlannedID(st.Network, name))
		}
		out.GroupsBefore, out.Groups = d.groups(d.held[op.Target]), d.groups(after)
		d.held[op.Target] = after
	}
	return out
}

// subject is what the step changes: an ID, or the name of a group that is still to be created.
func subject(s *analysis.PlanStep) string { return cmp.Or(s.Target, s.Name) }

// group names a group by its ID, or by its label or name if it is still to be created.
func (d *Describer) group(id string) string {
	if !strings.HasPrefix(id, model.PlannedGroupID) {
		return id
	}
	return cmp.Or(d.labels[id], nameIn(id))
}

func (d *Describer) groups(ids []string) (out []string) {
	for _, id := range ids {
		out = append(out, d.group(id))
	}
	return out
}

// nameIn is the name in the ID of a group that is still to be created.
func nameIn(id string) string { return id[strings.LastIndexByte(id, '/')+1:] }

// Relabel returns a text with the names of new groups as they are described.
func (d *Describer) Relabel(text string) string {
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(d.labels))) { // one name may begin another one
		text = strings.ReplaceAll(text, nameIn(id), d.labels[id])
	}
	return text
}

func (d *Describer) rules(st plan.Step, in []cloud.Rule) (out []analysis.PlanRule) {
	for _, r := range in {
		named := r
		if id := r.Peer.GroupID; strings.HasPrefix(id, model.PlannedGroupID) {
			named.Peer = cloud.Peer{GroupName: d.group(id)}
		} else if name := r.Peer.GroupName; name != "" {
			named.Peer.GroupName = d.group(model.PlannedID(st.Network, name))
		}
		doc := analysis.PlanRule{
			Direction: string(r.Direction), Protocol: int32(r.Match.Protocol), From: int32(r.Match.From), To: int32(r.Match.To), Peer: named.Peer.String(),
			Failsafe: slices.ContainsFunc(d.Failsafe, func(f plan.FailsafeFlow) bool { return within(f, r) }), Text: named.String(),
		}
		if name := d.names[r.Peer.GroupID]; name != "" {
			doc.Text += " (" + name + ")"
		}
		out = append(out, doc)
	}
	return out
}

// within reports whether all that the rule allows is among the flows.
func within(f plan.FailsafeFlow, r cloud.Rule) bool {
	return f.Direction == r.Direction && r.Peer.CIDR.IsValid() &&
		(len(f.Services) == 0 || slices.ContainsFunc(f.Services, func(s flow.Service) bool { return s.Covers(flow.ServiceOf(r.Match)) })) &&
		slices.ContainsFunc(f.Peers, func(p netip.Prefix) bool {
			return p.Bits() <= r.Peer.CIDR.Bits() && p.Contains(r.Peer.CIDR.Addr())
		})
}
