package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud/forecast"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// printPlans prints the answers for people, and first what they could not take into account.
func printPlans(w io.Writer, gaps []string, answers []accountPlan) error {
	var b strings.Builder
	if len(gaps) > 0 {
		fmt.Fprintf(&b, "# the snapshot is incomplete: %s\n", printable(strings.Join(gaps, "; ")))
	}
	for i := range answers {
		if i > 0 {
			b.WriteByte('\n')
		}
		if err := answers[i].print(&b); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (a *accountPlan) print(b *strings.Builder) error {
	fmt.Fprintf(b, "account %s\n", a.Account)
	for _, x := range a.Refusals {
		where := x.VM
		if where == "" {
			where = x.Region + " " + x.Network
		}
		verb := "refused"
		if x.Tightened {
			verb = "tightened"
		}
		fmt.Fprintf(b, "  ! %s: %s\n", verb, printable(fmt.Sprintf("%s %s: %s", x.Policy, where, x.Message)))
	}
	for _, d := range a.Drift {
		fmt.Fprintf(b, "  ! changed by hand: %s %s: %s\n", d.Region, d.Object, printable(d.Message))
	}
	for _, n := range a.Notes {
		fmt.Fprintf(b, "  # %s\n", printable(strings.TrimLeft(strings.TrimSpace(n.Region+" "+n.Object)+": "+n.Message, ": ")))
	}
	if err := printPlan(b, a.Plan); err != nil {
		return err
	}
	if a.Wave != nil {
		fmt.Fprintf(b, "At most %d VMs and groups in use are changed at once: %d of the %d operations are done first, and what is left is planned when they are seen to be done.\n",
			a.Wave.MaxPerWave, len(a.Wave.Plan.Steps), len(a.Plan.Steps))
	}
	for i, further := range a.Further {
		fmt.Fprintf(b, "\nWhen that is done (%d of %d):\n", i+1, len(a.Further))
		if err := printPlan(b, further); err != nil {
			return err
		}
	}
	if a.Plan.Empty() {
		return nil
	}
	printQuotas(b, a.Quotas)
	printReachability(b, a.Reachability)
	return nil
}

// printPlan prints a plan line by line, without what would do more to a terminal than print.
func printPlan(b *strings.Builder, p plan.Plan) error {
	var text strings.Builder
	if err := p.Print(&text); err != nil {
		return err
	}
	b.WriteString(printableLines(text.String()))
	return nil
}

// barWidth is the length of a bar that shows how full a quota is.
const barWidth = 20

func printQuotas(b *strings.Builder, quotas []forecast.Quota) {
	region := ""
	for _, q := range quotas {
		if q.Region != region {
			region = q.Region
			fmt.Fprintf(b, "\nQuotas in %s (= before, + added, - freed):\n", region)
		}
		fmt.Fprintf(b, "  %-44s [%s] %d -> %d of %d", q.Name, bar(q), q.Before, q.After, q.Limit)
		if q.Where != "" {
			fmt.Fprintf(b, "  (%s)", printable(q.Where))
		}
		b.WriteByte('\n')
	}
}

// bar draws what is used before and after. Whatever is used fills at least one place, and only what is full fills all.
func bar(q forecast.Quota) string {
	places := func(n int) int {
		switch {
		case n <= 0 || q.Limit <= 0:
			return 0
		case n >= q.Limit:
			return barWidth
		default:
			return min(max(1, n*barWidth/q.Limit), barWidth-1)
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

func printReachability(b *strings.Builder, changes []forecast.Change) {
	if len(changes) == 0 {
		b.WriteString("\nReachability: no flow opens or closes.\n")
		return
	}
	b.WriteString("\nReachability, when all is done:\n")
	region := ""
	for _, c := range changes {
		if c.Region != region {
			region = c.Region
			fmt.Fprintf(b, "region %s\n", region)
		}
		sign, verb := "-", "closes"
		if c.Opens {
			sign, verb = "+", "opens"
		}
		fmt.Fprintf(b, "  %s %s %s from %s to %s\n", sign, verb, c.Packets.Text, printable(c.From.String()), printable(c.To.String()))
	}
}
