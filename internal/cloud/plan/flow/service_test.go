package flow

import (
	"math/rand/v2"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
)

// TestServiceInWords: ports, and types and codes of ICMP, are said as people say them.
func TestServiceInWords(t *testing.T) {
	for want, s := range map[string]Service{
		"any protocol":                          Any(),
		"tcp":                                   Whole(cloud.TCP),
		"tcp 80":                                {cloud.TCP, 80, 80},
		"udp 1-9":                               {cloud.UDP, 1, 9},
		"sctp 256-511":                          {cloud.SCTP, 256, 511},
		"gre":                                   Whole(47),
		"icmp":                                  Whole(cloud.ICMP),
		"icmp type 8":                           {cloud.ICMP, 8 << 8, 8<<8 | 0xff},
		"icmp types 3-4":                        {cloud.ICMP, 3 << 8, 4<<8 | 0xff},
		"icmp type 3 code 4":                    {cloud.ICMP, 3<<8 | 4, 3<<8 | 4},
		"icmpv6 type 1 code 2 to type 3 code 4": {cloud.ICMPv6, 1<<8 | 2, 3<<8 | 4},
	} {
		if got := s.String(); got != want {
			t.Errorf("%d %d-%d is %q, want %q", s.Protocol, s.From, s.To, got, want)
		}
	}
}

func TestPartition(t *testing.T) {
	const seed = 7
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range 2000 {
		var services []Service
		for range r.IntN(6) {
			s := Service{Protocol: []int{1, 6, 17, 58}[r.IntN(4)]}
			s.From = uint16(r.IntN(0x10000))
			s.To = s.From + uint16(r.IntN(0x10000-int(s.From)))
			if r.IntN(5) == 0 {
				s = Whole([]int{6, 47, 132}[r.IntN(3)])
			}
			services = append(services, s)
		}
		cells := Partition(services)
		if cells[len(cells)-1] != Any() {
			t.Fatalf("seed %d case %d: last cell %v", seed, i, cells[len(cells)-1])
		}
		next := map[int]int{}
		for _, c := range cells[:len(cells)-1] {
			if int(c.From) != next[c.Protocol] {
				t.Fatalf("seed %d case %d: cells overlap or leave a gap before %v: %v", seed, i, c, cells)
			}
			next[c.Protocol] = int(c.To) + 1
			for _, s := range services {
				inside := s.Covers(c)
				if apart := s.Protocol != c.Protocol || s.To < c.From || c.To < s.From; inside == apart {
					t.Fatalf("seed %d case %d: %v cuts the cell %v", seed, i, s, c)
				}
			}
		}
		for protocol, end := range next {
			if end != 0x10000 {
				t.Fatalf("seed %d case %d: protocol %d ends at %d", seed, i, protocol, end)
			}
		}
	}
}

// TestRecordedServices: tags of former releases identify services by these texts.
func TestRecordedServices(t *testing.T) {
	for want, s := range map[string]Service{
		"any protocol":  {Protocol: cloud.AnyProtocol},
		"tcp -1":        {Protocol: cloud.TCP, To: axisEnd},
		"tcp 80-80":     {Protocol: cloud.TCP, From: 80, To: 80},
		"icmp 768-1023": {Protocol: cloud.ICMP, From: 3 << 8, To: 3<<8 | 0xff},
	} {
		if got := s.Recorded(); got != want {
			t.Errorf("%+v is recorded as %q, want %q", s, got, want)
		}
	}
}
