package preview

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/forecast"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
	"github.com/nephele-io/nephele/internal/review"
)

// Answer puts together what is printed.
func (p *Planner) Answer(made plans) analysis.PlanAnswer {
	out := analysis.PlanAnswer{Accounts: []analysis.AccountPlan{}, Incomplete: p.In.Gaps, Warnings: []string{}, WarningReasons: []string{}}
	for _, w := range p.warnings(made) {
		out.Warnings, out.WarningReasons = append(out.Warnings, w.Message), append(out.WarningReasons, string(w.Reason))
	}
	provisional := p.ClusterID == OfflineCluster || p.In.invented()
	for _, a := range made.Accounts {
		account := a.answer(provisional)
		if p.In.narrow() {
			a.keepTouched(&account, p.In.given)
		}
		withoutTold(&account, out.WarningReasons)
		out.Accounts = append(out.Accounts, account)
	}
	for _, f := range made.failed {
		out.Accounts = append(out.Accounts, unread(f))
	}
	slices.SortStableFunc(out.Accounts, func(a, b analysis.AccountPlan) int { return strings.Compare(a.Account, b.Account) })
	return out
}

// Unreadable says which accounts and regions could not be read; nil if all could.
func Unreadable(a *analysis.PlanAnswer) error {
	var failed, missing []error
	for _, x := range a.Accounts {
		if x.Error != "" {
			failed = append(failed, fmt.Errorf("account %s: %s", x.Account, x.Error))
		}
		for _, r := range x.Unread {
			missing = append(missing, fmt.Errorf("account %s: region %s: %s", x.Account, r.Region, r.Message))
		}
	}
	return errors.Join(append(failed, missing...)...)
}

func unread(f failedAccount) analysis.AccountPlan {
	a := newAccountPlan(f.key)
	a.Error = strings.TrimPrefix(f.err.Error(), "account "+f.key+": ")
	return a
}

// newAccountPlan returns an answer in which every list is there.
func newAccountPlan(key string) analysis.AccountPlan {
	return analysis.AccountPlan{
		Account: key, Plan: analysis.PlanDocument{Account: key, Steps: []analysis.PlanStep{}}, Further: []analysis.PlanDocument{}, Failsafe: []analysis.FailsafeFlow{},
		Quotas: []analysis.PlanQuota{}, Reachability: []analysis.ReachChange{},
		Policies: []analysis.PlannedPolicy{}, Refusals: []analysis.PlanRefusal{}, Warnings: []analysis.PlanNote{}, Drift: []analysis.PlanNote{}, Notes: []analysis.PlanNote{},
	}
}

// answer is what is printed about an account. New groups may be called otherwise when they are
// made, if names are provisional.
func (p plannedAccount) answer(provisional bool) analysis.AccountPlan {
	o, r := p.ObservedAccount, p.Result
	a := newAccountPlan(o.Key)
	setting := render.Setting{Failsafe: p.failsafe, Provisional: provisional}
	for _, region := range o.Regions {
		setting.Snapshots = append(setting.Snapshots, region.Snapshot)
	}
	describer := render.NewDescriber(setting)
	a.Plan = describer.Describe(r.Plan)
	a.Plan.Account = o.Key
	if wave, more := r.Plan.Wave(p.maxPerWave, o.vmOf); more {
		wave.Account = o.Key
		a.Wave = &analysis.PlanWave{MaxPerWave: int32(p.maxPerWave), Plan: render.NewDescriber(setting).Describe(wave)}
	}
	a.Brake = p.brake
	for _, round := range p.Forecast.Rounds[1:] {
		if !round.Plan.Empty() {
			a.Further = append(a.Further, describer.Describe(round.Plan))
		}
	}
	a.TagsOnly = tagsOnly(append([]analysis.PlanDocument{a.Plan}, a.Further...)...)
	for _, f := range p.failsafe {
		a.Failsafe = append(a.Failsafe, flowsOfFailsafe(f)...)
	}
	var opened []forecast.Change
	if !r.Plan.Empty() {
		var closures []forecast.Closure
		var changes []forecast.Change
		for i, region := range o.Regions {
			quotas := forecast.Quotas(region.Snapshot, p.Forecast.After[i], region.Limits, p.lowerer)
			for k := range quotas {
				quotas[k].Where = describer.Relabel(quotas[k].Where)
			}
			a.Quotas = append(a.Quotas, quotasOf(quotas)...)
			opened = append(opened, forecast.Reach(region.Snapshot, p.Forecast.After[i])...)
			gone, changed := forecast.Told(region.Snapshot, p.Forecast.After[i])
			closures, changes = append(closures, gone...), append(changes, changed...)
		}
		a.Reachability = append(a.Reachability, changesOf(opened)...)
		a.ReachabilityTold = toldOf(closures, changes)
	} else {
		for _, region := range o.Regions {
			a.Quotas = append(a.Quotas, quotasOf(forecast.Standing(region.Snapshot, region.Limits, p.lowerer))...)
		}
	}
	a.Unread = o.unread
	a.Planned = p.outlook()
	names := o.objectNames()
	for _, x := range p.agented.told {
		_, id, _ := strings.Cut(x.VM, "/")
		x.VMName = names[id]
		a.Agents = append(a.Agents, x)
	}
	p.remarks(&a)
	a.Remedies = remedies(a.Refusals)
	a.Warnings = append(a.Warnings, losesPolicy(r.Protection, names)...)
	a.Warnings = append(a.Warnings, changesOfAccess(opened, o.snapshot)...)
	a.Policies = append(a.Policies, p.policies(a.TagsOnly)...)
	return a
}

// outlook says what enforcing the VMs in mode plan would do; nil if there are none.
func (p plannedAccount) outlook() *analysis.PlannedVMs {
	outlooks := render.Outlooks(p.Forecast.Rounds)
	for vm := range outlooks {
		if p.modes[vm].Mode != plan.Planned {
			delete(outlooks, vm)
		}
	}
	if len(outlooks) == 0 {
		return nil
	}
	return &analysis.PlannedVMs{VMs: int32(len(outlooks)), Message: render.Planned(len(outlooks), render.Sum(maps.Values(outlooks)))}
}

// remarks adds what is to be said about single objects.
func (p plannedAccount) remarks(a *analysis.AccountPlan) {
	r := p.Result
	names := p.objectNames()
	a.Notes = append(a.Notes, p.notes...)
	if p.live != "" {
		a.Notes = append(a.Notes, analysis.PlanNote{Message: "the controller waits for a confirmation: " + p.live})
	}
	a.Notes = append(a.Notes, p.modeNotes(names)...)
	if !p.Forecast.Complete {
		a.Notes = append(a.Notes, analysis.PlanNote{Message: fmt.Sprintf("planning does not come to an end within %d rounds; please report this", len(p.Forecast.Rounds))})
	}
	for _, x := range p.end().Refusals {
		out := analysis.PlanRefusal{
			Region: x.Region, Network: x.Network, Direction: string(x.Direction), Message: x.Message, Lack: lackOf(x.Lack), Kept: x.Kept,
		}
		if x.Why != nil {
			out.Reason = string(x.Why.Code)
		}
		if x.Policy.UID != "" || x.Policy.Name != "" {
			out.Policy = x.Policy.String()
		}
		if x.VM.ID != "" {
			out.VM, out.VMName = x.VM.String(), names[x.VM.ID]
		}
		a.Refusals = append(a.Refusals, out)
	}
	drift := slices.Clone(r.Drift)
	for _, region := range p.Regions {
		plan.Concern(drift, region.Snapshot, r.VMs)
	}
	for _, d := range drift {
		a.Drift = append(a.Drift, analysis.PlanNote{Region: d.Region, Object: d.Object, Name: names[d.Object], Message: d.Message + render.Concerned(d)})
	}
	for _, c := range r.Cuts {
		a.Cuts = append(a.Cuts, analysis.PlanNote{Region: c.Region, Object: c.Interface, Name: names[c.VMID], Message: render.Cut(c)})
	}
	for _, n := range r.Notes {
		a.Notes = append(a.Notes, analysis.PlanNote{Region: n.Region, Object: n.Object, Name: names[n.Object], Message: n.Message})
	}
	for _, vm := range r.VMs {
		for _, o := range vm.Obstructed {
			var policies []string
			for _, p := range o.Policies {
				policies = append(policies, p.String())
			}
			a.Warnings = append(a.Warnings, analysis.PlanNote{
				Region: vm.VM.Region, Object: vm.VM.ID, Name: names[vm.VM.ID], Policy: cloud.Listed(policies, false),
				Reason: string(warnSubnetDenies), Message: render.Obstruction(o),
			})
		}
		for _, on := range vm.Policies {
			if on.Warning != "" && on.Message == "" {
				a.Warnings = append(a.Warnings, analysis.PlanNote{
					Region: vm.VM.Region, Object: vm.VM.ID, Name: names[vm.VM.ID], Policy: on.PolicyRef.String(),
					Reason: string(WarnNotExact), Message: on.Warning,
				})
			}
		}
	}
}

// end is the last round of planning: what it refuses is refused, whatever those before took for
// possible.
func (p plannedAccount) end() *plan.Result { return p.Forecast.Rounds[len(p.Forecast.Rounds)-1] }

// policies tells what becomes of each policy. What only waits for tags is in force.
func (p plannedAccount) policies(tagsOnly bool) (out []analysis.PlannedPolicy) {
	others := map[plan.VMRef]bool{}
	for i := range p.Result.VMs {
		others[p.Result.VMs[i].VM] = !p.Result.VMs[i].IsVM()
	}
	for _, s := range render.Policies(p.Forecast.Rounds) {
		c := analysis.PlannedPolicy{
			Policy: s.PolicyRef.String(), Realized: int32(len(s.Realized)), Pending: int32(len(s.Pending)), Released: int32(len(s.Suspended)), Refused: int32(len(s.Failed)),
		}
		if tagsOnly {
			c.Realized, c.Pending = c.Realized+c.Pending, 0
		}
		touched := slices.Concat(s.Realized, s.Pending)
		for _, f := range s.Failed {
			touched = append(touched, f.VM)
		}
		for _, vm := range touched {
			if p.modes[vm].Mode == plan.Planned {
				c.PlanMode++
			}
			if _, left := p.agented.left[vm]; left {
				c.Agents++
			}
		}
		c.VMs = int32(len(touched)) + c.Released
		for _, vm := range slices.Concat(touched, s.Suspended) {
			if others[vm] {
				c.Others++
			}
		}
		out = append(out, c)
	}
	return out
}

// modeNotes says which VMs are not simply enforced. VMs in mode plan are shown as if they were
// enforced, which is what the mode is for.
func (p plannedAccount) modeNotes(names map[string]string) (notes []analysis.PlanNote) {
	for ref, m := range p.modes {
		message := fmt.Sprintf("in mode %s: no policy is enforced, and what is held is given back (%s)", m.Mode, m.Reason)
		if m.Mode == plan.Planned {
			message = fmt.Sprintf("in mode plan: what is shown is done only in mode enforce (%s)", m.Reason)
		}
		notes = append(notes, analysis.PlanNote{Region: ref.Region, Object: ref.ID, Name: names[ref.ID], Message: message})
	}
	slices.SortFunc(notes, func(a, b analysis.PlanNote) int {
		return cmp.Or(strings.Compare(a.Region, b.Region), strings.Compare(a.Object, b.Object))
	})
	return notes
}

// objectNames are what people call VMs, interfaces (by their VMs) and groups, by ID.
func (o *ObservedAccount) objectNames() map[string]string {
	out := map[string]string{}
	for _, r := range o.Regions {
		for i := range r.Snapshot.VMs {
			out[r.Snapshot.VMs[i].ID] = r.Snapshot.VMs[i].Name
		}
		for i := range r.Snapshot.Interfaces {
			out[r.Snapshot.Interfaces[i].ID] = out[r.Snapshot.Interfaces[i].VMID]
		}
		for i := range r.Snapshot.Groups {
			out[r.Snapshot.Groups[i].ID] = r.Snapshot.Groups[i].Name
		}
	}
	return out
}

func flowsOfFailsafe(f plan.FailsafeFlow) (out []analysis.FailsafeFlow) {
	services := f.Services
	if len(services) == 0 {
		services = []flow.Service{{Protocol: cloud.AnyProtocol, To: 0xffff}}
	}
	for _, s := range services {
		told := analysis.FailsafeFlow{Direction: string(f.Direction), Protocol: int32(s.Protocol), From: int32(s.From), To: int32(s.To)}
		for _, p := range f.Peers {
			told.Peers = append(told.Peers, p.String())
		}
		out = append(out, told)
	}
	return out
}

func quotasOf(quotas []forecast.Quota) (out []analysis.PlanQuota) {
	for _, q := range quotas {
		out = append(out, analysis.PlanQuota{Region: q.Region, Name: q.Name, Before: int32(q.Before), After: int32(q.After), Limit: int32(q.Limit), Where: q.Where})
	}
	return out
}

func changesOf(changes []forecast.Change) (out []analysis.ReachChange) {
	for _, c := range changes {
		told := analysis.ReachChange{Region: c.Region, Opens: c.Opens, From: endOf(c.From), To: endOf(c.To),
			Packets: analysis.ReachPackets{Text: c.Packets.Text, Except: c.Packets.Except, Ranges: review.RangesOf(c.Packets.Ranges)}}
		out = append(out, told)
	}
	return out
}

func endOf(e forecast.End) analysis.ChangeEnd {
	out := analysis.ChangeEnd{VMs: e.VMs, Rest: e.Rest, Unseen: e.Unseen}
	for _, p := range e.Addresses {
		out.Addresses = append(out.Addresses, p.String())
	}
	return out
}

func lackOf(l *plan.Lack) *analysis.Lack {
	if l == nil {
		return nil
	}
	return &analysis.Lack{Quota: l.Quota, Direction: l.Direction, Family: l.Family, Needed: int32(l.Needed), Available: int32(l.Available),
		WouldDo: int32(l.WouldDo), AtLeast: l.AtLeast}
}
