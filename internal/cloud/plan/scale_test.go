package plan_test

import (
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// member is a VM as a member of a group.
func member(i int, addr netip.Addr) v1beta2.GroupMember {
	b := addr.As16()
	return v1beta2.GroupMember{
		ExternalEntity: &v1beta2.ExternalEntityReference{Namespace: "vms", Name: fmt.Sprintf("i-%05d", i)}, IPs: []v1beta2.IPAddress{b[:]},
	}
}

// labelledInput is an account with one network of so many VMs, which belong to the k-th of n sets
// if belongs says so. Policies are added by the caller, applied to and admitting "atg-k" and
// "ag-k".
func labelledInput(vms, n int, belongs func(vm, k int) bool) (plan.Input, *fakeCloud) {
	in, f := bigInput(vms, func(int) []string { return byRole(0) })
	in.Policies, in.AddressGroups, in.AppliedToGroups = nil, nil, nil
	for k := range n {
		a, b := &v1beta2.AddressGroup{}, &v1beta2.AppliedToGroup{}
		a.Name, b.Name = fmt.Sprintf("ag-%d", k), fmt.Sprintf("atg-%d", k)
		for i, nic := range f.snap.Interfaces {
			if belongs(i, k) {
				a.GroupMembers = append(a.GroupMembers, member(i, nic.PrivateIPs[0]))
				b.GroupMembers = append(b.GroupMembers, member(i, nic.PrivateIPs[0]))
			}
		}
		in.AddressGroups, in.AppliedToGroups = append(in.AddressGroups, a), append(in.AppliedToGroups, b)
	}
	return in, f
}

// admit adds a policy by which one set admits a peer for one port.
func admit(in *plan.Input, applied, port int, peer ruleSpec) {
	e := estate{}
	peer.Action = "Allow"
	peer.Services = []serviceSpec{{Protocol: "TCP", From: int32(port), To: int32(port), Type: -1}}
	in.Policies = append(in.Policies, e.policy(&policySpec{Tier: 250, Priority: 5, Applied: []int{applied}, Rules: []ruleSpec{peer}}, len(in.Policies)))
}

// bits makes 2^n classes: a VM is in the k-th set if the k-th bit of its class is set.
func bits(vms, n int, peer func(k int) ruleSpec) (plan.Input, *fakeCloud) {
	in, f := labelledInput(vms, n, func(vm, k int) bool { return vm>>k&1 == 1 })
	for k := range n {
		admit(&in, k, 1000+k, peer(k))
	}
	return in, f
}

// ring makes n classes, each of which admits the next one.
func ring(vms, n int) (plan.Input, *fakeCloud) {
	in, f := labelledInput(vms, n, func(vm, k int) bool { return vm%n == k })
	for k := range n {
		admit(&in, k, 1000+k, ruleSpec{Address: []int{(k + 1) % n}})
	}
	return in, f
}

func fromBlock(k int) ruleSpec {
	return ruleSpec{Blocks: []blockSpec{{CIDR: fmt.Sprintf("192.0.2.%d/32", 2*k)}}}
}

func fromSet(k int) ruleSpec { return ruleSpec{Address: []int{k}} }

// BenchmarkManyClasses computes the first plan, and the plan when there is nothing left to do, for
// accounts whose VMs fall into many classes.
func BenchmarkManyClasses(b *testing.B) {
	for _, c := range []struct {
		name  string
		input func() (plan.Input, *fakeCloud)
	}{
		{"ring/vms=2000/classes=500", func() (plan.Input, *fakeCloud) { return ring(2000, 500) }},
		{"blocks/vms=10000/classes=1023", func() (plan.Input, *fakeCloud) { return bits(10000, 10, fromBlock) }},
		{"sets/vms=10000/classes=63", func() (plan.Input, *fakeCloud) { return bits(10000, 6, fromSet) }},
		{"sets/vms=10000/classes=1023", func() (plan.Input, *fakeCloud) { return bits(10000, 10, fromSet) }},
	} {
		b.Run(c.name+"/first", func(b *testing.B) {
			in, _ := c.input()
			var s plan.Summary
			for b.Loop() {
				s = plan.Compute(in, lower.AWS{}).Plan.Summary()
			}
			b.ReportMetric(float64(s.GroupsCreated), "groups")
			b.ReportMetric(float64(s.InterfaceEdits), "edits")
		})
		b.Run(c.name+"/steady", func(b *testing.B) {
			in, f := c.input()
			settleBig(b, &in, f)
			for b.Loop() {
				if p := plan.Compute(in, lower.AWS{}).Plan; !p.Empty() {
					b.Fatal(p.Summary())
				}
			}
		})
	}
}

// BenchmarkAccounts compiles and plans 50 accounts of 2,000 VMs and 20 policies each, one after the
// other, and side by side on all processors, as workers do of which each has one account.
func BenchmarkAccounts(b *testing.B) {
	const accounts = 50
	inputs := make([]plan.Input, accounts)
	for i := range inputs {
		inputs[i], _ = bigInput(2000, byRole)
	}
	for _, c := range []struct {
		name    string
		workers int
	}{{"one after the other", 1}, {"side by side", runtime.GOMAXPROCS(0)}} {
		b.Run(c.name, func(b *testing.B) {
			results := make([]*plan.Result, accounts)
			for b.Loop() {
				var next atomic.Int64
				var planning sync.WaitGroup
				for range c.workers {
					planning.Go(func() {
						for i := next.Add(1) - 1; i < accounts; i = next.Add(1) - 1 {
							results[i] = plan.Compute(inputs[i], lower.AWS{})
						}
					})
				}
				planning.Wait()
			}
			var mem runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&mem)
			b.ReportMetric(float64(mem.HeapAlloc)/1e6, "MB-inputs+plans")
			b.ReportMetric(float64(mem.Sys)/1e6, "MB-process")
			for _, r := range results {
				if r.Plan.Summary().InterfaceEdits != 2000 {
					b.Fatal(r.Plan.Summary())
				}
			}
		})
	}
}

// BenchmarkLabelChange plans for one VM of 2,000 that changes its role, from scratch, in an account
// that is as it should be.
func BenchmarkLabelChange(b *testing.B) {
	in, f := bigInput(2000, byRole)
	settleBig(b, &in, f)
	relabel(&in)
	var worst time.Duration
	for b.Loop() {
		start := time.Now()
		if s := plan.Compute(in, lower.AWS{}).Plan.Summary(); s.InterfaceEdits != 1 || s.Steps != 1 {
			b.Fatal(s)
		}
		worst = max(worst, time.Since(start))
	}
	b.ReportMetric(float64(worst.Microseconds())/1e3, "ms-worst")
}

// relabel moves one VM from the first role to the sixth, in groups of its own, so that the input it
// came from is as it was.
func relabel(in *plan.Input) {
	addresses, applied := make([]*v1beta2.AddressGroup, len(in.AddressGroups)), make([]*v1beta2.AppliedToGroup, len(in.AppliedToGroups))
	for i := range addresses {
		addresses[i], applied[i] = in.AddressGroups[i].DeepCopy(), in.AppliedToGroups[i].DeepCopy()
	}
	addresses[5].GroupMembers = append(addresses[5].GroupMembers, addresses[0].GroupMembers[0])
	addresses[0].GroupMembers = addresses[0].GroupMembers[1:]
	applied[5].GroupMembers = append(applied[5].GroupMembers, applied[0].GroupMembers[0])
	applied[0].GroupMembers = applied[0].GroupMembers[1:]
	in.AddressGroups, in.AppliedToGroups = addresses, applied
}
