package preview

import (
	"math"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/forecast"
)

// namedInText is how many VMs or addresses of an end a sentence names before the rest is counted.
const namedInText = 4

// toldOf makes sentences of changes, and then of closures.
func toldOf(closures []forecast.Closure, changes []forecast.Change) (out []analysis.ToldChange) {
	const everything = math.MaxInt - 1
	add := func(region string, opens bool, text func(limit int) string) {
		t := analysis.ToldChange{Region: region, Opens: opens, Text: text(namedInText)}
		if all := text(everything); all != t.Text {
			t.All = all
		}
		out = append(out, t)
	}
	for _, c := range changes {
		add(c.Region, c.Opens, func(limit int) string {
			verb := "closes "
			if c.Opens {
				verb = "opens "
			}
			return verb + c.Packets.Text + " from " + c.From.Text(limit) + " to " + c.To.Text(limit)
		})
	}
	for _, c := range closures {
		add(c.Region, false, c.Text)
	}
	return out
}
