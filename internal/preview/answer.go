package preview

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/forecast"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
)

// Answer is what the command plan prints. docs/ask.md documents every field.
type Answer struct {
	Accounts []AccountPlan `json:"accounts"`
	// Incomplete says what a snapshot does not tell.
	Incomplete []string `json:"incomplete,omitempty"`
	// Warnings are about what looks like a mistake and belongs to no account that was read.
	Warnings []string `json:"warnings"`
	// WarningReasons are the reasons of Warnings, in the same order.
	WarningReasons []WarningReason `json:"warningReasons"`
	// Flows is what would become of connections that agents have seen, if that was asked for.
	Flows *analysis.FlowEffects `json:"flows,omitempty"`
}

// AccountPlan is the answer for one account.
type AccountPlan struct {
	Account string `json:"account"`
	// Error says why the account could not be read; the rest is empty then.
	Error string `json:"error,omitempty"`
	// Unread are the regions that could not be read. They are left as they are.
	Unread []UnreadRegion  `json:"unread,omitempty"`
	Plan   render.Document `json:"plan"`
	// Further are the plans that follow when this one is done, each made on what the one before
	// leads to.
	Further []render.Document `json:"further"`
	// TagsOnly is true if all that is to be done is to write tags: the account is as it should be,
	// and no packet is decided otherwise.
	TagsOnly bool `json:"tagsOnly,omitempty"`
	// Wave is what is done first, if the account bounds what is done at once and that is less than
	// the plan.
	Wave *plannedWave `json:"wave,omitempty"`
	// Brake is set if the controller holds some of it until it is confirmed.
	Brake *PlannedBrake `json:"brake,omitempty"`
	// Planned sums up what enforcing the VMs in mode plan would do, as the condition Planned does;
	// nil if there are none.
	Planned *plannedVMs `json:"planned,omitempty"`
	// Failsafe are the flows that VMs with policies are allowed whatever the policies say.
	Failsafe []PlannedFlow `json:"failsafe"`
	// Quotas and Reachability compare the cloud as it is with what it is when nothing is left to
	// do.
	Quotas       []forecast.Quota  `json:"quotas"`
	Reachability []forecast.Change `json:"reachability"`
	// ReachabilityTold says the same in sentences, with less to read.
	ReachabilityTold []ToldChange `json:"reachabilityTold,omitempty"`

	// Agents are the VMs that selectors hand to the agents in them.
	Agents   []PlannedAgent   `json:"agents,omitempty"`
	Policies []PlannedPolicy  `json:"policies"`
	Refusals []PlannedRefusal `json:"refusals"`
	// Remedies are what makes room for what is refused for want of a quota.
	Remedies []Remedy      `json:"remedies,omitempty"`
	Warnings []PlannedNote `json:"warnings"`
	Drift    []PlannedNote `json:"drift"`
	// Cuts are what interfaces lose that are not under control, where the account permits that.
	Cuts  []PlannedNote `json:"cuts,omitempty"`
	Notes []PlannedNote `json:"notes"`
	// More says how much is left out of lists that are too long, by their names.
	More map[string]int `json:"more,omitempty"`
}

// UnreadRegion is a region that could not be read, and why.
type UnreadRegion struct {
	Region  string `json:"region"`
	Message string `json:"message"`
}

// PlannedPolicy counts the VMs, native services and interfaces that a policy applies to, by what
// becomes of it there: each is in one of Realized, Pending, Refused and Released.
type PlannedPolicy struct {
	Policy string `json:"policy"`
	VMs    int    `json:"vms"`
	// Others are those of them that are no VMs.
	Others int `json:"others,omitempty"`
	// Realized is where nothing is left to do, Pending where this plan or a further one realizes
	// it.
	Realized int `json:"realized"`
	Pending  int `json:"pending"`
	// Refused is where nothing new of it is enforced.
	Refused int `json:"refused"`
	// Released are VMs that are released, where no policy is enforced.
	Released int `json:"released"`
	// PlanMode are those of the others that are in mode plan, where nothing is done.
	PlanMode int `json:"planMode"`
	// Agents are those of the realized and pending that are left to the agents in them.
	Agents int `json:"agents,omitempty"`
}

type PlannedRefusal struct {
	Policy string `json:"policy,omitempty"`
	VM     string `json:"vm,omitempty"`
	// VMName is what people call the VM.
	VMName    string          `json:"vmName,omitempty"`
	Region    string          `json:"region,omitempty"`
	Network   string          `json:"network,omitempty"`
	Direction cloud.Direction `json:"direction,omitempty"`
	// Reason is the planner's word for it.
	Reason  plan.Code `json:"reason,omitempty"`
	Message string    `json:"message"`
	// Lack has the numbers if a quota is what does not suffice.
	Lack *plan.Lack `json:"lack,omitempty"`
	// Kept says that what was last realized stays in force there.
	Kept bool `json:"kept"`
}

// plannedWave is the beginning of a plan.
type plannedWave struct {
	MaxPerWave int             `json:"maxPerWave"`
	Plan       render.Document `json:"plan"`
}

// plannedVMs is what enforcing the VMs in mode plan would do, when all rounds are done.
type plannedVMs struct {
	VMs     int    `json:"vms"`
	Message string `json:"message"`
}

// PlannedFlow is a failsafe flow.
type PlannedFlow struct {
	Direction cloud.Direction `json:"direction"`
	// Protocol is -1 for all; From and To are ports, or 0 and 65535.
	Protocol int            `json:"protocol"`
	From     int            `json:"from"`
	To       int            `json:"to"`
	Peers    []netip.Prefix `json:"peers"`
}

// PlannedNote is a remark about an object: an interface, a group or a VM.
type PlannedNote struct {
	Region string `json:"region,omitempty"`
	Object string `json:"object,omitempty"`
	// Name is what people call the object, or the VM of an interface.
	Name string `json:"name,omitempty"`
	// Policy is set where the remark is about one.
	Policy string `json:"policy,omitempty"`
	// Reason is set for warnings.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
}

// Answer puts together what is printed.
func (p *Planner) Answer(made plans) Answer {
	out := Answer{Incomplete: p.In.Gaps, Warnings: []string{}, WarningReasons: []WarningReason{}}
	for _, w := range p.warnings(made) {
		out.Warnings, out.WarningReasons = append(out.Warnings, w.Message), append(out.WarningReasons, w.Reason)
	}
	provisional := p.ClusterID == OfflineCluster || p.In.invented()
	for _, a := range made.Accounts {
		account := a.answer(provisional)
		if p.In.narrow() {
			a.keepTouched(&account, p.In.given)
		}
		account.withoutTold(out.WarningReasons)
		out.Accounts = append(out.Accounts, account)
	}
	for _, f := range made.failed {
		out.Accounts = append(out.Accounts, unread(f))
	}
	slices.SortStableFunc(out.Accounts, func(a, b AccountPlan) int { return strings.Compare(a.Account, b.Account) })
	return out
}

// Unreadable says which accounts and regions could not be read; nil if all could.
func (a *Answer) Unreadable() error {
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

func unread(f failedAccount) AccountPlan {
	a := newAccountPlan(f.key)
	a.Error = strings.TrimPrefix(f.err.Error(), "account "+f.key+": ")
	return a
}

// newAccountPlan returns an answer in which every list is there.
func newAccountPlan(key string) AccountPlan {
	return AccountPlan{
		Account: key, Plan: render.Document{Account: key, Steps: []render.DocumentStep{}}, Further: []render.Document{}, Failsafe: []PlannedFlow{},
		Quotas: []forecast.Quota{}, Reachability: []forecast.Change{},
		Policies: []PlannedPolicy{}, Refusals: []PlannedRefusal{}, Warnings: []PlannedNote{}, Drift: []PlannedNote{}, Notes: []PlannedNote{},
	}
}

// answer is what is printed about an account. New groups may be called otherwise when they are
// made, if names are provisional.
func (p plannedAccount) answer(provisional bool) AccountPlan {
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
		a.Wave = &plannedWave{MaxPerWave: p.maxPerWave, Plan: render.NewDescriber(setting).Describe(wave)}
	}
	a.Brake = p.brake
	for _, round := range p.Forecast.Rounds[1:] {
		if !round.Plan.Empty() {
			a.Further = append(a.Further, describer.Describe(round.Plan))
		}
	}
	a.TagsOnly = tagsOnly(append([]render.Document{a.Plan}, a.Further...)...)
	for _, f := range p.failsafe {
		a.Failsafe = append(a.Failsafe, flowsOfFailsafe(f)...)
	}
	if !r.Plan.Empty() {
		var closures []forecast.Closure
		var changes []forecast.Change
		for i, region := range o.Regions {
			quotas := forecast.Quotas(region.Snapshot, p.Forecast.After[i], region.Limits, p.lowerer)
			for k := range quotas {
				quotas[k].Where = describer.Relabel(quotas[k].Where)
			}
			a.Quotas = append(a.Quotas, quotas...)
			a.Reachability = append(a.Reachability, forecast.Reach(region.Snapshot, p.Forecast.After[i])...)
			gone, changed := forecast.Told(region.Snapshot, p.Forecast.After[i])
			closures, changes = append(closures, gone...), append(changes, changed...)
		}
		a.ReachabilityTold = toldOf(closures, changes)
	} else {
		for _, region := range o.Regions {
			a.Quotas = append(a.Quotas, forecast.Standing(region.Snapshot, region.Limits, p.lowerer)...)
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
	a.Warnings = append(a.Warnings, changesOfAccess(a.Reachability, o.snapshot)...)
	a.Policies = append(a.Policies, p.policies(a.TagsOnly)...)
	return a
}

// outlook says what enforcing the VMs in mode plan would do; nil if there are none.
func (p plannedAccount) outlook() *plannedVMs {
	outlooks := render.Outlooks(p.Forecast.Rounds)
	for vm := range outlooks {
		if p.modes[vm].Mode != plan.Planned {
			delete(outlooks, vm)
		}
	}
	if len(outlooks) == 0 {
		return nil
	}
	return &plannedVMs{len(outlooks), render.Planned(len(outlooks), render.Sum(maps.Values(outlooks)))}
}

// remarks adds what is to be said about single objects.
func (p plannedAccount) remarks(a *AccountPlan) {
	r := p.Result
	names := p.objectNames()
	a.Notes = append(a.Notes, p.notes...)
	if p.live != "" {
		a.Notes = append(a.Notes, PlannedNote{Message: "the controller waits for a confirmation: " + p.live})
	}
	a.Notes = append(a.Notes, p.modeNotes(names)...)
	if !p.Forecast.Complete {
		a.Notes = append(a.Notes, PlannedNote{Message: fmt.Sprintf("planning does not come to an end within %d rounds; please report this", len(p.Forecast.Rounds))})
	}
	for _, x := range p.end().Refusals {
		out := PlannedRefusal{
			Region: x.Region, Network: x.Network, Direction: x.Direction, Message: x.Message, Lack: x.Lack, Kept: x.Kept,
		}
		if x.Why != nil {
			out.Reason = x.Why.Code
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
		a.Drift = append(a.Drift, PlannedNote{Region: d.Region, Object: d.Object, Name: names[d.Object], Message: d.Message + render.Concerned(d)})
	}
	for _, c := range r.Cuts {
		a.Cuts = append(a.Cuts, PlannedNote{Region: c.Region, Object: c.Interface, Name: names[c.VMID], Message: render.Cut(c)})
	}
	for _, n := range r.Notes {
		a.Notes = append(a.Notes, PlannedNote{Region: n.Region, Object: n.Object, Name: names[n.Object], Message: n.Message})
	}
	for _, vm := range r.VMs {
		for _, o := range vm.Obstructed {
			var policies []string
			for _, p := range o.Policies {
				policies = append(policies, p.String())
			}
			a.Warnings = append(a.Warnings, PlannedNote{
				Region: vm.VM.Region, Object: vm.VM.ID, Name: names[vm.VM.ID], Policy: cloud.Listed(policies, false),
				Reason: string(warnSubnetDenies), Message: render.Obstruction(o),
			})
		}
		for _, on := range vm.Policies {
			if on.Warning != "" && on.Message == "" {
				a.Warnings = append(a.Warnings, PlannedNote{
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
func (p plannedAccount) policies(tagsOnly bool) (out []PlannedPolicy) {
	others := map[plan.VMRef]bool{}
	for i := range p.Result.VMs {
		others[p.Result.VMs[i].VM] = !p.Result.VMs[i].IsVM()
	}
	for _, s := range render.Policies(p.Forecast.Rounds) {
		c := PlannedPolicy{Policy: s.PolicyRef.String(), Realized: len(s.Realized), Pending: len(s.Pending), Released: len(s.Suspended), Refused: len(s.Failed)}
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
		c.VMs = len(touched) + c.Released
		for _, vm := range slices.Concat(touched, s.Suspended) {
			if others[vm] {
				c.Others++
			}
		}
		out = append(out, c)
	}
	return out
}

// modeNotes says which VMs are not simply enforced. Those in mode plan are shown as if they were
// enforced, which is what the mode is for.
func (p plannedAccount) modeNotes(names map[string]string) (notes []PlannedNote) {
	for ref, m := range p.modes {
		message := fmt.Sprintf("in mode %s: no policy is enforced, and what is held is given back (%s)", m.Mode, m.Reason)
		if m.Mode == plan.Planned {
			message = fmt.Sprintf("in mode plan: what is shown is done only in mode enforce (%s)", m.Reason)
		}
		notes = append(notes, PlannedNote{Region: ref.Region, Object: ref.ID, Name: names[ref.ID], Message: message})
	}
	slices.SortFunc(notes, func(a, b PlannedNote) int {
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

func flowsOfFailsafe(f plan.FailsafeFlow) (out []PlannedFlow) {
	services := f.Services
	if len(services) == 0 {
		services = []flow.Service{{Protocol: cloud.AnyProtocol, To: 0xffff}}
	}
	for _, s := range services {
		out = append(out, PlannedFlow{f.Direction, s.Protocol, int(s.From), int(s.To), f.Peers})
	}
	return out
}
