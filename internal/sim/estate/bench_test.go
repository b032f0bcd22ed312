package estate

import (
	"testing"

	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/statefile"
	"github.com/nephele-io/nephele/internal/sim/world"
)

// BenchmarkAllowed asks verdicts in a region of 1,000 machines.
func BenchmarkAllowed(b *testing.B) {
	s, err := Random(1, Shape{VPCs: 10, VMs: 100, Groups: 10})
	if err != nil {
		b.Fatal(err)
	}
	w, err := world.New(s, world.Options{})
	if err != nil {
		b.Fatal(err)
	}
	nics := s.Regions[0].NetworkInterfaces
	for i := 0; b.Loop(); i++ {
		f := packet.Flow{Src: packet.End{NIC: nics[i%len(nics)].ID}, Dst: packet.End{NIC: nics[i*7%len(nics)].ID}, Protocol: 6, Port: 80}
		if _, err := w.Allowed(f); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSave writes the state of a region of 1,000 machines.
func BenchmarkSave(b *testing.B) {
	s, err := Random(1, Shape{VPCs: 10, VMs: 100, Groups: 10})
	if err != nil {
		b.Fatal(err)
	}
	w, err := world.New(s, world.Options{})
	if err != nil {
		b.Fatal(err)
	}
	path := b.TempDir() + "/state.json"
	for b.Loop() {
		if err := statefile.Save(w, path); err != nil {
			b.Fatal(err)
		}
	}
}
