package realize

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// apartStories are lives of VMs of which some are not selected, but their interfaces are.
func apartStories() (out []story) {
	for _, s := range stories() {
		if s.cfg.estate == "" && s.cfg.follows == nil && s.cfg.regions == nil {
			s.name, s.cfg.apart = s.name+", interfaces", []string{"web-1", "db-1"}
			out = append(out, s)
		}
	}
	return out
}

// TestInterfacesGuarded: interfaces that are entities of their own, beside VMs that are, live as
// interfaces of VMs do: every packet has the verdict that the policies want, none has another one
// at any moment in between, and in the end all is as it was.
func TestInterfacesGuarded(t *testing.T) {
	t.Parallel()
	for _, s := range apartStories() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if got := live(t, s); len(got.wrong) > 0 {
				t.Errorf("%s", got)
			}
		})
	}
}

// TestInterfaceFaults disturbs single calls of these lives in every way.
func TestInterfaceFaults(t *testing.T) {
	t.Parallel()
	_, seed := seeded(t)
	m := &matrix{ways: disturbances()}
	t.Run("stories", func(t *testing.T) {
		for i, s := range apartStories()[:2] {
			c := m.column(s.name)
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				c.run(t, s, m.ways, 2, rand.New(rand.NewPCG(seed, 200+uint64(i))))
			})
		}
	})
	t.Logf("seed %d; survived of runs\n%s", seed, m)
}

// TestInterfaceOfSelectedVM: once somebody selects the VM of a guarded interface, the interface is
// the VM's. A policy on the interface is refused and says whose it is, the VM has what applies to
// it, and when it is selected no longer the interface has its policy again.
func TestInterfaceOfSelectedVM(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{apart: []string{"db-1"}})
	before := l.holdings().NICs[l.vms["db-1"].nic]
	whole, vm := plan.EntityRef{Namespace: labNamespace, Name: "whole"}, ""
	instances, err := l.region(home).Instances()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range instances {
		if i.Tags["Name"] == "db-1" {
			vm = i.ID
		}
	}
	l.engine.PutPolicy(dbNoShell())
	l.publish()
	l.start()
	l.settle()
	l.as(l.wanted())
	taken := l.holdings().NICs[l.vms["db-1"].nic]
	if slices.Equal(taken, before) {
		t.Fatalf("it holds %v", taken)
	}
	selects := func(selected bool) {
		l.since = l.options.Clock.Now()
		l.accounts.change(func(a *Account) {
			entities := map[plan.EntityRef]plan.VMRef{}
			for k, v := range a.Entities {
				if k != whole {
					entities[k] = v
				}
			}
			if selected {
				entities[whole] = plan.VMRef{Region: home, ID: vm}
			}
			a.Entities = entities
		})
	}
	selects(true)
	l.until("the interface is given back, and the policy says why", func() bool {
		r, _ := l.realizer.Report(labAccount)
		return slices.Equal(l.holdings().NICs[l.vms["db-1"].nic], before) && r.Result != nil && slices.ContainsFunc(r.Result.Policies, func(p plan.PolicyStatus) bool {
			return len(p.Unguarded) == 1 && strings.Contains(p.Unguarded[0].Message, "it is of the virtual machine "+vm+", which is selected")
		})
	})
	selects(false)
	l.settle()
	l.as(l.wanted())
}
