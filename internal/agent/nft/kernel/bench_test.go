package kernel_test

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// benchEvents are in each round of a benchmark, because it takes long to begin one. Run them with
// -benchtime 1x.
const benchEvents = 30

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
	world := nfttest.World()
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
		g := i * 7919 % nfttest.WorldGroups
		world.AddressGroups[g] = enforcer.NewAddressGroup(nfttest.WorldGroup(g, 1+i%3))
	})
}

// BenchmarkPolicyChange changes the rules of one policy, from the event to the kernel.
func BenchmarkPolicyChange(b *testing.B) {
	benchmarkEvent(b, func(world *enforcer.Computed, i int) {
		p := i * 7 % nfttest.WorldPolicies
		world.Policies[p] = nfttest.WorldPolicy(p, 9000+i%5*100)
	})
}

func benchmarkEvent(b *testing.B, change func(world *enforcer.Computed, i int)) {
	world := nfttest.World()
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
	world := nfttest.World()
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
