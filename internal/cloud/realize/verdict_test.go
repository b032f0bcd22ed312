package realize

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/native"
)

// probe is a flow that is looked at. An end that is no VM is an address.
type probe struct {
	from, to string
	port     uint16
}

func (p probe) String() string { return fmt.Sprintf("%s -> %s:%d", p.from, p.to, p.port) }

// overIPv6 ends the name of a VM where its IPv6 address is meant.
const overIPv6 = " over IPv6"

// address is that of an end: a VM, by the address of a family, or an address outside.
func (l *lab) address(end string) netip.Addr {
	if vm, ok := l.vms[strings.TrimSuffix(end, overIPv6)]; !ok {
		return netip.MustParseAddr(end)
	} else if strings.HasSuffix(end, overIPv6) {
		return vm.addr6
	} else {
		return vm.addr
	}
}

func (l *lab) allProbes() []probe {
	ends := append(slices.Sorted(maps.Keys(l.vms)), "198.51.100.7", "203.0.113.7")
	for _, name := range slices.Sorted(maps.Keys(l.vms)) {
		if l.vms[name].addr6.IsValid() {
			ends = append(ends, name+overIPv6)
		}
	}
	ends = append(ends, "2001:db8:ffff::7", "2001:db8:fffe::7")
	var out []probe
	for _, from := range ends {
		for _, to := range ends {
			x, y := l.vms[strings.TrimSuffix(from, overIPv6)], l.vms[strings.TrimSuffix(to, overIPv6)]
			if l.address(from).Is4() != l.address(to).Is4() || from == to || cmp.Or(x.of, from) == cmp.Or(y.of, to) || x.nic == "" && y.nic == "" || x.region != y.region && x.nic != "" && y.nic != "" ||
				l.address(from).Is6() && (x.nic != "" && !x.addr6.IsValid() || y.nic != "" && !y.addr6.IsValid()) {
				continue
			}
			for _, port := range []uint16{22, 80, 443, 5432, 8080, 9100} {
				out = append(out, probe{from, to, port})
			}
		}
	}
	return out
}

func (l *lab) end(name string) packet.End {
	return packet.End{NIC: l.vms[strings.TrimSuffix(name, overIPv6)].nic, Addr: l.address(name)}
}

func (l *lab) flow(p probe) packet.Flow {
	return packet.Flow{Src: l.end(p.from), Dst: l.end(p.to), Protocol: 6, Port: int(p.port)}
}

// ask returns the simulator's verdict and its reason.
func (l *lab) ask(p probe) packet.Verdict {
	v, err := l.server.World().Allowed(l.flow(p))
	if err != nil {
		l.Errorf("%s: %v", p, err)
	}
	return v
}

// passes is the simulator's verdict.
func (l *lab) passes(p probe) bool {
	passes, err := l.server.World().Passes(l.flow(p))
	if err != nil {
		l.Errorf("%s: %v", p, err)
	}
	return passes
}

func (l *lab) endpoint(name string) evaluate.Endpoint {
	if vm := strings.TrimSuffix(name, overIPv6); l.vms[vm].nic != "" {
		return evaluate.Endpoint{EntityRef: entityRef(cmp.Or(l.vms[vm].of, vm)), Addr: l.address(name), Semantics: evaluate.VMSemantics}
	}
	return evaluate.Endpoint{Addr: l.address(name)}
}

// verdicts says of every probe whether it passes.
type verdicts map[probe]bool

// wanted is what the policies in the engine mean, by its own evaluator and the verdicts of the
// groups that the VMs had at first.
func (l *lab) wanted() verdicts {
	e := evaluate.New(l.engine.Listing())
	out := verdicts{}
	for _, p := range l.probes {
		v := e.Evaluate(evaluate.Flow{Source: l.endpoint(p.from), Destination: l.endpoint(p.to), Protocol: policy.TCP, Port: p.port})
		out[p] = l.half(p.from, v.Egress, l.native[p][0]) && (l.half(p.to, v.Ingress, l.native[p][1]) || l.safe(p))
	}
	return out
}

// half is the wanted verdict at one end: what the VM's own groups say if it is given back, else
// what the policies say.
func (l *lab) half(end string, d evaluate.Decision, native bool) bool {
	end = strings.TrimSuffix(end, overIPv6)
	if m := l.modes[cmp.Or(l.vms[end].of, end)]; l.deleted || m == plan.Released || m == plan.BreakGlass {
		return native || l.vms[end].nic == ""
	}
	return passes(d, native)
}

// safe reports whether a VM admits it whatever policies say. Its own groups admit it as well.
func (l *lab) safe(p probe) bool {
	return slices.ContainsFunc(l.accounts.failsafe(), func(f plan.FailsafeFlow) bool {
		service := slices.ContainsFunc(f.Services, func(s plan.Service) bool { return s.From <= p.port && p.port <= s.To })
		return service && slices.ContainsFunc(f.Peers, func(b netip.Prefix) bool { return b.Contains(l.address(p.from)) })
	})
}

func passes(d evaluate.Decision, native bool) bool {
	return d.Outcome == evaluate.OutcomeAllow || d.Outcome == evaluate.OutcomeNative && native
}

// actual is what the simulator says.
func (l *lab) actual() verdicts {
	out := make(verdicts, len(l.probes))
	for _, p := range l.probes {
		out[p] = l.passes(p)
	}
	return out
}

// compare reports how the verdicts differ.
func compare(got, want verdicts) string {
	var out []string
	for p, w := range want {
		if got[p] != w {
			out = append(out, fmt.Sprintf("%s: passes = %t, want %t", p, got[p], w))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// holdings is what of the cloud may not be changed for good: the groups with their rules, and
// groups and tags of interfaces and VPCs.
type holdings struct {
	Groups map[string][]string
	NICs   map[string][]string
	Tags   map[string]aws.Tags
}

func (l *lab) holdings() holdings {
	l.Helper()
	h := holdings{map[string][]string{}, map[string][]string{}, map[string]aws.Tags{}}
	for _, info := range l.server.World().Regions(l.account) {
		r := l.region(info.Name)
		groups, err := r.SecurityGroups()
		nics, err2 := r.NetworkInterfaces()
		vpcs, err3 := r.VPCs()
		if err := cmp.Or(err, err2, err3); err != nil {
			l.Fatal(err)
		}
		for _, g := range groups {
			h.Groups[g.ID] = []string{g.Name}
			for _, rule := range g.Rules {
				h.Groups[g.ID] = append(h.Groups[g.ID], rule.String())
			}
			h.tags(g.ID, g.Tags)
		}
		for _, n := range nics {
			for _, g := range n.Groups {
				h.NICs[n.ID] = append(h.NICs[n.ID], g.ID)
			}
			slices.Sort(h.NICs[n.ID])
			h.tags(n.ID, n.Tags)
		}
		for _, v := range vpcs {
			h.tags(v.ID, v.Tags)
		}
		for _, s := range r.Services().List(native.Kinds()...) {
			h.tags(s.ARN(), s.Tags)
			h.NICs[s.ARN()] = slices.Sorted(slices.Values(s.Groups))
		}
	}
	return h
}

func (h holdings) tags(id string, tags aws.Tags) {
	if len(tags) > 0 {
		h.Tags[id] = tags
	}
}
