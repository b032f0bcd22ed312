package realize

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/realize/status"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/sim/ec2"
)

// deny makes the cloud refuse to change the interface of a VM, and returns what ends that. In calls
// about several objects, all are refused, as EC2 does it.
func (l *lab) deny(vm string) (end func()) {
	id := l.vms[vm].nic
	fault := l.server.Faults().Add(ec2.Fault{Action: "*", Times: -1, Code: "UnauthorizedOperation", Message: "an explicit deny", Match: func(c ec2.Call) bool {
		return mutating(c) && slices.Contains(sortedValues(c.Params), id)
	}})
	return func() { l.server.Faults().Remove(fault) }
}

func sortedValues(m map[string]string) (out []string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[k])
	}
	return out
}

// without returns verdicts on flows that a VM has no part in.
func (v verdicts) without(vms ...string) verdicts {
	out := verdicts{}
	for p, x := range v {
		if !slices.Contains(vms, p.from) && !slices.Contains(vms, p.to) {
			out[p] = x
		}
	}
	return out
}

// policyOn is what the last report says of a policy on a VM.
func (l *lab) policyOn(vm, policy string) (plan.VMPolicy, bool) {
	r, _ := l.realizer.Report(labAccount)
	if r.Result == nil {
		return plan.VMPolicy{}, false
	}
	for _, x := range r.Result.VMs {
		if x.VM.ID != l.vms[vm].id {
			continue
		}
		for _, p := range x.Policies {
			if p.Name == policy {
				return p, true
			}
		}
	}
	return plan.VMPolicy{}, false
}

// TestOneInterfaceIsDenied: an interface that the cloud refuses to change stops nobody else,
// neither in the plan that meets the refusal nor in later ones; its VM says why, and it follows
// when it may.
func TestOneInterfaceIsDenied(t *testing.T) {
	t.Parallel()
	for name, peer := range map[string]bool{"untouched before": false, "a peer before": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labConfig{})
			before := l.holdings()
			if peer {
				l.engine.PutPolicy(webIn())
			}
			l.publish()
			l.start()
			l.settle()
			mine := l.holdings().NICs[l.vms["ops-1"].nic]
			end := l.deny("ops-1")
			l.engine.PutPolicy(inside())
			l.publish()
			others := func(what string) {
				t.Helper()
				l.until(what, func() bool { return compare(l.actual().without("ops-1"), l.wanted().without("ops-1")) == "" })
			}
			others("the others are enforced")
			l.until("the VM says why it is not", func() bool {
				p, found := l.policyOn("ops-1", inside().Name)
				return found && !p.Realized && strings.Contains(p.Message, "an explicit deny") && !strings.Contains(p.Message, "request")
			})
			l.engine.PutPolicy(dbNoShell())
			l.publish()
			others("a policy that comes later is enforced as well")
			if d := gocmp.Diff(mine, l.holdings().NICs[l.vms["ops-1"].nic]); d != "" {
				t.Errorf("it was changed:\n%s", d)
			}
			for _, vm := range []string{"web-1", "web-2", "db-1"} {
				l.until(vm+" is realized", func() bool {
					p, found := l.policyOn(vm, inside().Name)
					return found && p.Realized
				})
			}
			end()
			l.settle()
			l.as(l.wanted())
			l.deny("db-1") // no group refers to that of the database
			for _, p := range []policy.Policy{webIn(), inside(), dbNoShell()} {
				l.engine.DeletePolicy(p.UID)
			}
			l.publish()
			l.until("the others are given back", func() bool {
				now := l.holdings()
				for name, vm := range l.vms {
					if name != "db-1" && !slices.Equal(now.NICs[vm.nic], before.NICs[vm.nic]) {
						return false
					}
				}
				return true
			})
		})
	}
}

// TestDependentsOfARefusedInterfaceWait: interfaces whose own groups name the group of an interface
// that the cloud refuses to give back would lose their flows with it. They stay under control,
// without the policies that are gone, their status names what they wait for and why, and they go
// with it. Deleting the account changes nothing about that: its end waits for the refused interface
// anyway.
func TestDependentsOfARefusedInterfaceWait(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*lab){
		"policies deleted": func(l *lab) { l.engine.DeletePolicy(inside().UID); l.publish() },
		"account deleted":  func(l *lab) { l.release() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labConfig{})
			before := l.holdings()
			l.engine.PutPolicy(inside())
			l.publish()
			l.start()
			l.settle()
			old := l.wanted()
			end := l.deny("ops-1")
			w := &witness{l: l}
			leave(l)
			w.expect(old, l.wanted())
			defer l.server.World().OnMutation(w.look)()
			dependents := []string{"web-1", "web-2", "db-1"}
			l.until("they name what they wait for, and why", func() bool {
				r, _ := l.realizer.Report(labAccount)
				return r.Result != nil && r.Result.Plan.Empty() && !slices.ContainsFunc(dependents, func(vm string) bool {
					return !slices.ContainsFunc(r.Result.Notes, func(n plan.Note) bool {
						return n.Object == l.vms[vm].nic && strings.Contains(n.Message, l.vms["ops-1"].nic) && strings.Contains(n.Message, "an explicit deny")
					})
				})
			})
			l.as(l.wanted().without("ops-1"))
			for _, vm := range dependents {
				if slices.Equal(l.holdings().NICs[l.vms[vm].nic], before.NICs[l.vms[vm].nic]) {
					t.Errorf("%s was given back", vm)
				}
			}
			end()
			l.settle()
			if d := gocmp.Diff(before, l.holdings()); d != "" {
				t.Error(d)
			}
			for _, wrong := range w.found {
				t.Error(wrong)
			}
		})
	}
}

// TestDeniedAtDeletion: an account that is deleted gives back what it can, says what it cannot and
// why, and is released when it can.
func TestDeniedAtDeletion(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	before := l.holdings()
	l.engine.PutPolicy(inside())
	l.publish()
	l.start()
	l.settle()
	end := l.deny("db-1")
	l.release()
	l.until("it says why it is not released", func() bool {
		r, _ := l.realizer.Report(labAccount)
		now := l.holdings().NICs
		return r.Err != nil && strings.Contains(r.Err.Error(), l.vms["db-1"].nic) && strings.Contains(r.Err.Error(), "an explicit deny") &&
			slices.Equal(now[l.vms["web-1"].nic], before.NICs[l.vms["web-1"].nic]) && !l.realizer.Released(labAccount)
	})
	end()
	l.settle()
	if d := gocmp.Diff(before, l.holdings()); d != "" {
		t.Error(d)
	}
}

// TestDeniedWithBrokenGlass: the glass of all is broken, and one cannot be given back: the others
// are.
func TestDeniedWithBrokenGlass(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	before := l.holdings().NICs
	l.engine.PutPolicy(inside())
	l.publish()
	l.start()
	l.settle()
	end := l.deny("db-1")
	l.setModes(plan.BreakGlass, "web-1", "web-2", "db-1", "ops-1")
	l.until("the others are given back, and it is said that one is not", func() bool {
		now := l.holdings().NICs
		for _, vm := range []string{"web-1", "web-2", "ops-1"} {
			if !slices.Equal(now[l.vms[vm].nic], before[l.vms[vm].nic]) {
				return false
			}
		}
		r, _ := l.realizer.Report(labAccount)
		for _, x := range r.Result.VMs {
			if x.VM.ID == l.vms["db-1"].id {
				c := meta.FindStatusCondition(r.Outcome(x, "VM", nil, status.Outcome{}).Conditions, cloudv1.ConditionBreakGlass)
				return c != nil && strings.Contains(c.Message, "an explicit deny")
			}
		}
		return false
	})
	end()
	l.settle()
	if d := gocmp.Diff(before, l.holdings().NICs); d != "" {
		t.Error(d)
	}
}

// TestAllIsDenied: where everything is refused, that is said, and not tried for every interface in
// a row.
func TestAllIsDenied(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	l.publish()
	l.start()
	l.settle()
	l.fault(ec2.Fault{Action: "CreateSecurityGroup", Code: "UnauthorizedOperation", Message: "no right", Times: -1})
	l.engine.PutPolicy(inside())
	l.publish()
	l.until("it says so", func() bool {
		r, _ := l.realizer.Report(labAccount)
		return r.Err != nil && strings.Contains(r.Err.Error(), "no right")
	})
}

// twoVPCs is an account with two networks that know nothing of one another.
const twoVPCs = `
accounts:
- id: "111122223333"
  regions:
  - name: eu-west-1
    vpcs:
    - name: one
      id: vpc-00000001
      cidrs: [10.1.0.0/16]
      groups:
      - {name: web, rules: ["tcp 80,443 from any", "tcp 22 from any"]}
      vms:
      - {name: web-1, ip: 10.1.1.11, groups: [web]}
      - {name: db-1, ip: 10.1.1.12, groups: [web]}
    - name: two
      id: vpc-00000002
      cidrs: [10.2.0.0/16]
      groups:
      - {name: web, rules: ["tcp 80,443 from any", "tcp 22 from any"]}
      vms:
      - {name: web-2, ip: 10.2.1.11, groups: [web]}
      - {name: ops-1, ip: 10.2.1.12, groups: [web]}
`

// TestOneNetworkIsDenied: where the cloud refuses what a whole network needs, other networks of the
// region go on, and their VMs do not say that they failed.
func TestOneNetworkIsDenied(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "two.yaml")
	if err := os.WriteFile(file, []byte(twoVPCs), 0o600); err != nil {
		t.Fatal(err)
	}
	l := newLab(t, labConfig{estate: file})
	l.publish()
	l.start()
	l.settle()
	fault := l.server.Faults().Add(ec2.Fault{Action: "CreateSecurityGroup", Code: "UnauthorizedOperation", Message: "no right", Times: -1,
		Params: map[string]string{"VpcId": "vpc-00000001"}})
	for _, p := range []policy.Policy{inside(), noShell()} {
		l.engine.PutPolicy(p)
		l.publish()
		l.until("the other network is enforced", func() bool {
			return compare(l.actual().without("web-1", "db-1"), l.wanted().without("web-1", "db-1")) == ""
		})
		l.until("each says what is true of it", func() bool {
			r, _ := l.realizer.Report(labAccount)
			if r.Result == nil || r.Err == nil {
				return false
			}
			for _, vm := range r.Result.VMs {
				for _, x := range r.Outcome(vm, "VM", nil, status.Outcome{}).Policies {
					failed := x.Phase == "Failed" && strings.Contains(x.Message, "no right")
					mine := vm.VM.ID == l.vms["web-1"].id || vm.VM.ID == l.vms["db-1"].id
					if failed != mine {
						return false
					}
				}
			}
			return len(r.Result.VMs) == 4
		})
	}
	l.server.Faults().Remove(fault)
	l.settle()
	l.as(l.wanted())
}
