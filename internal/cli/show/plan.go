package show

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"strings"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/forecast"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
)

// listedPolicies is how many policies that need no attention are listed before the rest is counted.
const listedPolicies = 20

// planText prints plans for people. All means that everything is listed, however much it is.
type planText struct {
	strings.Builder
	all bool
}

// abbreviated is what stands for names that are not listed.
var abbreviated = regexp.MustCompile(` and [0-9]+ more\b`)

// Plans prints the answers for people, and first what they could not take into account.
func Plans(w io.Writer, answer analysis.PlanAnswer, all bool) error {
	t := &planText{all: all}
	if len(answer.Incomplete) > 0 {
		t.line("# the snapshot is incomplete: %s", strings.Join(answer.Incomplete, "; "))
	}
	for _, x := range answer.Warnings {
		t.line("  ! warning: %s", x)
	}
	for i := range answer.Accounts {
		if i > 0 {
			t.WriteByte('\n')
		}
		if err := t.account(&answer.Accounts[i]); err != nil {
			return err
		}
	}
	if answer.Flows != nil {
		t.flows(answer.Flows)
	}
	if !all && abbreviated.MatchString(t.String()) {
		t.WriteByte('\n')
		t.line("With --all, all names are listed.")
	}
	_, err := io.WriteString(w, t.String())
	return err
}

// line prints a line without what would do more to a terminal than print.
func (t *planText) line(format string, args ...any) {
	t.WriteString(terminal.Printable(fmt.Sprintf(format, args...)))
	t.WriteByte('\n')
}

func (t *planText) account(a *analysis.AccountPlan) error {
	t.line("account %s", a.Account)
	if a.Error != "" {
		t.line("  ! cannot be read: %s", a.Error)
		return nil
	}
	t.failsafe(a.Failsafe)
	t.brake(a.Brake)
	if a.Planned != nil {
		t.line("Mode plan: nothing of this is done. %s", a.Planned.Message)
	}
	t.policies(a)
	t.agents(a.Agents)
	t.refusals(a.Refusals)
	for _, r := range a.Remedies {
		t.line("  # %s", r.Message)
	}
	t.remarks("! warning:", a.Warnings)
	t.remarks("! changed by hand:", a.Drift)
	t.remarks("! loses flows:", a.Cuts)
	t.remarks("#", a.Notes)
	if err := t.plan(a.Plan); err != nil {
		return err
	}
	if a.TagsOnly {
		t.line("Only tags differ: all is enforced as it should be.")
	}
	if refused := refusedPolicies(a.Refusals); refused != "" {
		t.line("Refused: %s.", refused)
	}
	if a.Wave != nil {
		t.line("At most %d VMs and groups in use are changed at once: %d of the %d operations are done first, and what is left is planned when they are seen to be done.",
			a.Wave.MaxPerWave, len(a.Wave.Plan.Steps), len(a.Plan.Steps))
	}
	for i, further := range a.Further {
		t.line("")
		t.line("When that is done (%d of %d):", i+1, len(a.Further))
		if err := t.plan(further); err != nil {
			return err
		}
	}
	if len(a.Plan.Steps) > 0 && !a.TagsOnly {
		t.quotas(a.Quotas)
		t.reachability(a.ReachabilityTold)
	}
	return nil
}

func (t *planText) failsafe(flows []analysis.FailsafeFlow) {
	if len(flows) == 0 {
		return
	}
	t.line("Failsafe flows, allowed on every VM with policies whatever these say:")
	for _, f := range flows {
		toFrom := "from"
		if f.Direction == string(cloud.Egress) {
			toFrom = "to"
		}
		t.line("  %s %s %s %s", f.Direction, forecast.Range{Protocol: int(f.Protocol), From: int(f.From), To: int(f.To)}, toFrom, cloud.Listed(f.Peers, t.all))
	}
}

// policies lists what becomes of the policies.
func (t *planText) policies(a *analysis.AccountPlan) {
	if len(a.Policies) == 0 {
		return
	}
	t.line("Policies:")
	quiet, more := 0, 0
	for _, p := range a.Policies {
		if p.Refused+p.Released+p.PlanMode == 0 && p.VMs > 0 {
			if quiet++; quiet > listedPolicies && !t.all {
				more++
				continue
			}
		}
		t.line("  %s: %s", p.Policy, policyText(p))
	}
	if more > 0 {
		t.line("  and %d more that are or will be enforced on all that they select", more)
	}
}

// policyText says on how many VMs a policy applies and what becomes of it there.
func policyText(p analysis.PlannedPolicy) string {
	if p.VMs == 0 {
		return "selects nothing of this account"
	}
	var parts []string
	add := func(n int32, format string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf(format, n))
		}
	}
	add(p.Realized, "%d enforced")
	pending := "%d to be enforced"
	if p.PlanMode == p.VMs {
		pending = "%d would be enforced"
	}
	add(p.Pending, pending)
	add(p.Refused, "%d refused")
	add(p.Released, "%d released")
	var of []string
	if vms := p.VMs - p.Others; vms > 0 {
		of = append(of, cloud.Counted(int(vms), "VM"))
	}
	if p.Others > 0 {
		of = append(of, cloud.Counted(int(p.Others), "other workload"))
	}
	out := strings.Join(of, ", ") + ": " + strings.Join(parts, ", ")
	if p.Agents > 0 {
		out += fmt.Sprintf("; by the agents in %d of them", p.Agents)
	}
	switch p.PlanMode {
	case 0:
		return out
	case p.VMs:
		return "planned on " + out
	}
	return out + fmt.Sprintf("; only planned on %d of them, whose mode is plan", p.PlanMode)
}

// agents says which VMs are left to the agents in them, and which of those that are to be are not.
func (t *planText) agents(agents []analysis.PlannedAgent) {
	if len(agents) == 0 {
		return
	}
	t.line("Handed to agents:")
	for _, a := range agents {
		t.line("  %s (ExternalNode %s): %s", cmp.Or(a.VMName, a.VM), a.ExternalNode, a.Message)
		for _, p := range a.Policies {
			if p.Refused != "" {
				t.line("    ! %s: the agent refuses it: %s", p.Policy, p.Refused)
				continue
			}
			t.line("    %s: %s and %d for egress on the host", p.Policy, cloud.Counted(int(p.Ingress), "rule")+" for ingress", p.Egress)
		}
	}
}

// refusedPolicies counts what is refused.
func refusedPolicies(refusals []analysis.PlanRefusal) string {
	policies, vms, others := map[string]bool{}, map[string]bool{}, 0
	for _, x := range refusals {
		switch {
		case x.Policy != "":
			policies[x.Policy] = true
		default:
			others++
		}
		if x.VM != "" {
			vms[x.VM] = true
		}
	}
	var parts []string
	if n := len(policies); n == 1 {
		parts = append(parts, "1 policy")
	} else if n > 1 {
		parts = append(parts, fmt.Sprintf("%d policies", n))
	}
	switch {
	case others == 0:
	case len(policies) == 0:
		parts = append(parts, "what is told above")
	default:
		parts = append(parts, cloud.Counted(others, "other thing"))
	}
	out := strings.Join(parts, " and ")
	if len(vms) > 0 {
		out += ", on " + cloud.Counted(len(vms), "VM")
	}
	return out
}

// plan prints a plan.
func (t *planText) plan(d analysis.PlanDocument) error {
	var text strings.Builder
	if err := render.Print(&text, d, t.all); err != nil {
		return err
	}
	t.WriteString(terminal.PrintableLines(text.String()))
	return nil
}

// barWidth is the length of a bar that shows how full a quota is.
const barWidth = 16

func (t *planText) quotas(quotas []analysis.PlanQuota) {
	region := ""
	for _, q := range quotas {
		if q.Region != region {
			region = q.Region
			t.line("")
			t.line("Quotas in %s (= before, + added, - freed):", region)
		}
		where := ""
		if q.Where != "" {
			where = "  (" + q.Where + ")"
		}
		t.line("  %-42s [%s] %d -> %d of %d%s", q.Name, bar(q), q.Before, q.After, q.Limit, where)
	}
}

// bar draws what is used before and after. Whatever is used fills at least one place, and only what
// is full fills all.
func bar(q analysis.PlanQuota) string {
	places := func(n int32) int {
		switch {
		case n <= 0 || q.Limit <= 0:
			return 0
		case n >= q.Limit:
			return barWidth
		default:
			return int(min(max(1, int64(n)*barWidth/int64(q.Limit)), barWidth-1))
		}
	}
	before, after := places(q.Before), places(q.After)
	both, sign := min(before, after), "+"
	if after < before {
		sign = "-"
	}
	more := max(before, after) - both
	return strings.Repeat("=", both) + strings.Repeat(sign, more) + strings.Repeat(".", barWidth-both-more)
}

func (t *planText) reachability(changes []analysis.ToldChange) {
	t.line("")
	if len(changes) == 0 {
		t.line("Reachability: no flow opens or closes.")
		return
	}
	t.line("Reachability, when all is done:")
	region := ""
	for _, c := range changes {
		if c.Region != region {
			region = c.Region
			t.line("region %s", region)
		}
		sign, text := "-", c.Text
		if c.Opens {
			sign = "+"
		}
		if t.all {
			text = cmp.Or(c.All, c.Text)
		}
		t.line("  %s %s", sign, text)
	}
}

func (t *planText) brake(b *analysis.PlanBrake) {
	switch {
	case b == nil:
	case b.OnceEnforced:
		t.line("  # once the VMs in mode plan are enforced: %s", b.Message)
	case b.Confirmed:
		t.line("  # is large, and confirmed: %s", b.Hash)
	default:
		t.line("  ! waits for a confirmation: %s", b.Message)
	}
}
