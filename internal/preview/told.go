package preview

import (
	"math"

	"github.com/nephele-io/nephele/internal/cloud/forecast"
)

// ToldChange says in a sentence what opens or closes.
type ToldChange struct {
	Region string `json:"region"`
	Opens  bool   `json:"opens"`
	Text   string `json:"text"`
	// All names all that Text counts; empty if Text names all.
	All string `json:"all,omitempty"`
}

// namedInText is how many VMs or addresses of an end a sentence names before the rest is counted.
const namedInText = 4

// toldOf makes sentences of changes, and then of closures.
func toldOf(closures []forecast.Closure, changes []forecast.Change) (out []ToldChange) {
	const everything = math.MaxInt - 1
	add := func(region string, opens bool, text func(limit int) string) {
		t := ToldChange{Region: region, Opens: opens, Text: text(namedInText)}
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
