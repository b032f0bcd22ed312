package render_test

import (
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
)

// nics are interfaces of VMs with the same number.
func nics(names ...string) (out []plan.InterfaceRef) {
	for _, n := range names {
		out = append(out, plan.InterfaceRef{VM: plan.VMRef{Region: "eu-west-1", ID: "i-" + n}, ID: "eni-" + n, Name: "web-" + n})
	}
	return out
}

// TestWaiting: what waits has its numbers and the command. At the beginning the text says that
// nothing is wrong. The names come last, for an event cuts its text after 1,024 bytes and must hold
// the command.
func TestWaiting(t *testing.T) {
	t.Parallel()
	const (
		rest  = ". These interfaces stay as they are, all else goes on. \"nephele plan\" shows what would change. To let it go on: "
		first = ". Nothing is wrong: this is always asked before so much comes under control for the first time"
	)
	for name, c := range map[string]struct {
		waiting     plan.Waiting
		want, about string
	}{
		"for the first time": {plan.Waiting{All: 5, Guarded: nics("1", "2", "3", "4"), Brake: plan.Brake{Percent: 50, Interfaces: 3}},
			"4 of the 5 interfaces of VMs would newly come under control. What concerns at least 3 interfaces, and more than 50 %, waits for a confirmation (spec.brake of the account)" + first,
			"web-1 in eu-west-1, web-2 in eu-west-1, web-3 in eu-west-1, and 1 more (nephele plan --all names all)"},
		"later": {plan.Waiting{All: 9, Control: 2, Guarded: nics("1"), Released: nics("8", "9"), Brake: plan.Brake{Percent: 0, Interfaces: 1}},
			"2 of the 2 interfaces under control would be given back, and 1 of the 9 interfaces of VMs would newly come under control. " +
				"What concerns at least 1 interface, and more than 0 %, waits for a confirmation (spec.brake of the account)",
			"web-8 in eu-west-1, web-9 in eu-west-1, web-1 in eu-west-1"},
		"step by step": {plan.Waiting{All: 9, Control: 9, Released: nics("1", "1"), Gradual: true, Brake: plan.Brake{Percent: 10, Interfaces: 2}},
			"2 of the 9 interfaces under control would be given back, after others of late. What concerns at least 2 interfaces, and more than 10 %, waits for a confirmation (spec.brake of the account)",
			"web-1 in eu-west-1"},
	} {
		w := c.waiting
		w.Account, w.Hash = "vms/shop", "abcd"
		const command = "kubectl annotate cloudprovideraccount shop -n vms nephele.io/confirm=abcd --overwrite"
		if got := render.Confirming(&w); got != command {
			t.Errorf("%s: got %q", name, got)
		}
		want := c.want + rest + command
		if got := render.Waiting(&w); got != want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, want)
		}
		got := render.WaitingFor(&w)
		if want += ". It is about " + c.about; got != want {
			t.Errorf("%s, with names:\n got %q\nwant %q", name, got, want)
		}
		if strings.Index(got, command)+len(command) > 1000 {
			t.Errorf("%s: the command is late in %q", name, got)
		}
	}
}
