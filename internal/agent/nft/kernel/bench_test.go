package kernel_test

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// The world of the benchmarks.
const (
	benchPolicies = 1000
	benchRules    = 10 // of each policy
	benchGroups   = 20000
	benchMembers  = 5 // of each group
	// benchEvents are in each round of a benchmark, because it takes long to begin one. Run them
	// with -benchtime 1x.
	benchEvents = 30
)

// benchWorld is what a host receives in a large world. Every rule names two groups.
func benchWorld() enforcer.Computed {
	var out enforcer.Computed
	for g := range benchGroups {
		out.AddressGroups = append(out.AddressGroups, benchGroup(g, 0))
	}
	out.AppliedToGroups = []*v1beta2.AppliedToGroup{{ObjectMeta: metav1.ObjectMeta{Name: "host"},
		GroupMembers: []v1beta2.GroupMember{{ExternalEntity: &v1beta2.ExternalEntityReference{Namespace: "vms", Name: "web"}}}}}
	for p := range benchPolicies {
		out.Policies = append(out.Policies, benchPolicy(p, 8000))
	}
	return out
}

func benchGroup(g, shift int) *v1beta2.AddressGroup {
	out := &v1beta2.AddressGroup{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("group-%d", g)}}
	for m := range benchMembers {
		n := g*benchMembers + m + shift<<20
		a := netip.AddrFrom4([4]byte{10 + byte(n>>24), byte(n >> 16), byte(n >> 8), byte(n)}).As16()
		out.GroupMembers = append(out.GroupMembers, v1beta2.GroupMember{Pod: &v1beta2.PodReference{Namespace: "n", Name: fmt.Sprint(n)}, IPs: []v1beta2.IPAddress{a[:]}})
	}
	return out
}

func benchPolicy(p, port int) *v1beta2.NetworkPolicy {
	tier, priority, allow, tcp := int32(250), float64(p), v1beta2.RuleActionAllow, v1beta2.ProtocolTCP
	out := &v1beta2.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("policy-%d", p)}, TierPriority: &tier, Priority: &priority, AppliedToGroups: []string{"host"},
		SourceRef: &v1beta2.NetworkPolicyReference{Type: v1beta2.AntreaNetworkPolicy, Namespace: "vms", Name: fmt.Sprintf("policy-%d", p)}}
	for r := range benchRules {
		n := intstr.FromInt(port + r)
		g := (p*benchRules + r) * 2 % benchGroups
		out.Rules = append(out.Rules, v1beta2.NetworkPolicyRule{Direction: v1beta2.DirectionIn, Priority: int32(r), Action: &allow, Name: fmt.Sprintf("r%d", r),
			From:     v1beta2.NetworkPolicyPeer{AddressGroups: []string{fmt.Sprintf("group-%d", g), fmt.Sprintf("group-%d", g+1)}},
			Services: []v1beta2.Service{{Protocol: &tcp, Port: &n}}})
	}
	return out
}

// processor returns the processor time that this process has used, that of the kernel on its behalf
// included. Other than the clock it does not count what else runs on the machine.
func processor(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// percentiles reports how long something took, in milliseconds of processor time.
func percentiles(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(took[len(took)/2]), "p50-cpu-ms")
	b.ReportMetric(ms(took[len(took)*99/100]), "p99-cpu-ms")
	b.ReportMetric(0, "ns/op")
}

func BenchmarkColdStart(b *testing.B) {
	world := benchWorld()
	var took []time.Duration
	for range b.N {
		table := open(b, nfttest.NewHost(b))
		begun := processor(b)
		result := new(nft.Compiler).Compile(nft.Input{Computed: world})
		compiled := processor(b) - begun
		w, err := table.Apply(result.Program)
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, processor(b)-begun)
		b.ReportMetric(float64(w.Rules), "rules")
		b.ReportMetric(float64(w.Elements), "elements")
		b.ReportMetric(float64(compiled.Milliseconds()), "compile-cpu-ms")
	}
	percentiles(b, took)
}

// BenchmarkMemberEvent changes the addresses of one group, from the event to the kernel.
func BenchmarkMemberEvent(b *testing.B) {
	benchmarkEvent(b, func(world *enforcer.Computed, i int) {
		g := i * 7919 % benchGroups
		world.AddressGroups[g] = benchGroup(g, 1+i%3)
	})
}

// BenchmarkPolicyChange changes the rules of one policy, from the event to the kernel.
func BenchmarkPolicyChange(b *testing.B) {
	benchmarkEvent(b, func(world *enforcer.Computed, i int) {
		p := i * 7 % benchPolicies
		world.Policies[p] = benchPolicy(p, 9000+i%5*100)
	})
}

func benchmarkEvent(b *testing.B, change func(world *enforcer.Computed, i int)) {
	world := benchWorld()
	table := open(b, nfttest.NewHost(b))
	var compiler nft.Compiler
	if _, err := table.Apply(compiler.Compile(nft.Input{Computed: world}).Program); err != nil {
		b.Fatal(err)
	}
	var took []time.Duration
	for i := range benchEvents * b.N {
		change(&world, i)
		begun := processor(b)
		w, err := table.Apply(compiler.Compile(nft.Input{Computed: world}).Program)
		if err != nil || w.Messages == 0 || w.Read {
			b.Fatal(w, err)
		}
		took = append(took, processor(b)-begun)
	}
	percentiles(b, took)
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapAlloc)/1e6, "heap-MB")
}

// BenchmarkRestart opens a table as it was left, which must not be written.
func BenchmarkRestart(b *testing.B) {
	world := benchWorld()
	host := nfttest.NewHost(b)
	table := open(b, host)
	if _, err := table.Apply(new(nft.Compiler).Compile(nft.Input{Computed: world}).Program); err != nil {
		b.Fatal(err)
	}
	var took []time.Duration
	for range b.N {
		if err := table.Close(); err != nil {
			b.Fatal(err)
		}
		begun := processor(b)
		table = open(b, host)
		w, err := table.Apply(new(nft.Compiler).Compile(nft.Input{Computed: world}).Program)
		if err != nil || w.Rules+w.Chains+w.Elements > 0 {
			b.Fatal(w, err)
		}
		took = append(took, processor(b)-begun)
	}
	percentiles(b, took)
}
