package aws

import (
	"cmp"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/sim/native"
)

// This file keeps the native services of a region: databases, balancers, endpoints and the like.
// What they are like is reported by package native; here they get interfaces, addresses and groups.

// ServiceState is the part of a RegionState that this file is about. A node of a service without an
// interface gets one when the World is built.
type ServiceState struct {
	Services     []native.Service     `json:"services,omitempty"`
	TargetGroups []native.TargetGroup `json:"targetGroups,omitempty"`
}

// serviceData is what regionData has of it.
type serviceData struct {
	services map[string]*native.Service     // by serviceKey
	targets  map[string]*native.TargetGroup // by name
}

func newServices() serviceData {
	return serviceData{map[string]*native.Service{}, map[string]*native.TargetGroup{}}
}

func serviceKey(ref native.Ref) string { return string(ref.Kind) + " " + ref.Name }

func (d *regionData) fillServices(s *ServiceState) {
	index(d.services, s.Services, (*native.Service).Clone, func(s *native.Service) string { return serviceKey(s.Ref()) })
	index(d.targets, s.TargetGroups, (*native.TargetGroup).Clone, func(g *native.TargetGroup) string { return g.Name })
}

func (s *serviceData) state() ServiceState {
	return ServiceState{ordered(s.services, (*native.Service).Clone), ordered(s.targets, (*native.TargetGroup).Clone)}
}

// equipAll gives the services of a new World the interfaces that its State does not tell.
func (w *World) equipAll() error {
	var problems []error
	for at, d := range w.inOrder() {
		r := &Region{&site{w: w, at: at, data: d}}
		for _, key := range slices.Sorted(maps.Keys(d.services)) {
			if err := r.equip(d.services[key], time.Time{}); err != nil {
				problems = append(problems, errors.New(key+": "+err.Error()))
			}
		}
	}
	return errors.Join(problems...)
}

// inOrder walks the regions by account and name.
func (w *World) inOrder() func(func(scope, *regionData) bool) {
	keys := slices.SortedFunc(maps.Keys(w.regions), func(a, b scope) int {
		return cmp.Or(cmp.Compare(a.account, b.account), cmp.Compare(a.region, b.region))
	})
	return func(yield func(scope, *regionData) bool) {
		for _, at := range keys {
			if !yield(at, w.regions[at]) {
				return
			}
		}
	}
}

// equip makes the interfaces that nodes of a service lack. A service that must have groups and has
// none gets the default group of its VPC.
func (r *Region) equip(s *native.Service, now time.Time) error {
	looks, taken := s.InterfaceOf(), map[netip.Addr]bool{}
	nodes := slices.Clone(s.Nodes)
	made := map[int]*NetworkInterface{}
	for i := range nodes {
		if nodes[i].NIC != "" {
			continue
		}
		spec := InterfaceSpec{SubnetID: nodes[i].SubnetID, GroupIDs: s.Groups, Description: looks.Description, AssociatePublicIP: &s.Public}
		if nodes[i].Addr.IsValid() {
			spec.PrivateIP = nodes[i].Addr.String()
		}
		p, err := Interfaces{r.site}.planNIC(spec, now, taken)
		if err != nil {
			return err
		}
		used := r.used(p.subnet.VPCID)
		maps.Copy(used, taken)
		n, err := Interfaces{r.site}.newNIC(p, now, used)
		if err != nil {
			return err
		}
		taken[n.PrivateIPs[0].Addr] = true
		if len(s.Groups) == 0 && s.Kind.Balances() {
			n.Groups = nil
		}
		n.InterfaceType, n.RequesterID, n.RequesterManaged, n.SourceDestCheck = looks.Type, looks.RequesterID, true, looks.SourceDestCheck
		n.Status = StatusInUse
		if now.IsZero() {
			// What a State does not tell has ids that depend on its name alone.
			n.ID = "eni-" + shortHash(s.ARN()+"/"+strconv.Itoa(i))
		}
		n.Attachment = &Attachment{ID: "eni-attach-" + shortHash(n.ID), DeviceIndex: 1, Status: "attached", AttachTime: now.UTC().Truncate(time.Second)}
		nodes[i].NIC, made[i] = n.ID, n
	}
	s.Nodes = nodes
	for _, n := range made {
		r.data.nics[n.ID] = n
		if len(s.Groups) == 0 {
			for _, g := range n.Groups {
				s.Groups = append(s.Groups, g.ID)
			}
		}
	}
	return nil
}

// Services are the calls about native services. The refusals are the refusals of EC2 where a group,
// a subnet or an address is at fault; else their codes are ServiceNotFound, ServiceExists,
// ServiceBusy, ServiceInvalid, DifferentNetworks and TagInvalid, which each API has its own names
// for.
type Services struct{ r *Region }

// Services returns that part of the region.
func (r *Region) Services() Services { return Services{r} }

func (s Services) find(ref native.Ref) (*native.Service, error) {
	x := s.r.data.services[serviceKey(ref)]
	if x == nil {
		return nil, refuse("ServiceNotFound", "%s %s not found.", ref.Kind, ref.Name)
	}
	return x, nil
}

// List returns the services of the given kinds, by kind and name.
func (s Services) List(kinds ...native.Kind) (out []native.Service) {
	s.r.w.read(func(time.Time) {
		for _, x := range s.r.data.services {
			if slices.Contains(kinds, x.Kind) {
				out = append(out, x.Clone())
			}
		}
	})
	slices.SortFunc(out, func(a, b native.Service) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return out
}

// members are the members of a cluster, replication group or file system, by name.
func (s Services) members(of native.Ref) (out []*native.Service) {
	all := s.r.data.services
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if x := all[key]; x.Parent != "" && x.ParentRef() == of {
			out = append(out, x)
		}
	}
	return out
}

// Get returns one service.
func (s Services) Get(ref native.Ref) (out native.Service, err error) {
	s.r.w.read(func(time.Time) {
		x, missing := s.find(ref)
		if err = missing; missing == nil {
			out = x.Clone()
		}
	})
	return out, err
}

// TargetGroups returns all target groups, by name.
func (s Services) TargetGroups() (out []native.TargetGroup) {
	s.r.w.read(func(time.Time) { out = ordered(s.r.data.targets, (*native.TargetGroup).Clone) })
	return out
}

// change runs f on a service that is not busy, as the mutation action. The service is busy
// afterwards for as long as Options.TransitionDelay says.
func (s Services) change(action string, ref native.Ref, f func(x *native.Service, now time.Time) (touched []string, err error)) (native.Service, error) {
	var out native.Service
	err := s.r.mutate(action, func(now time.Time) ([]string, error) {
		x, err := s.find(ref)
		if err != nil {
			return nil, err
		}
		if now.Before(x.Busy) {
			return nil, refuse("ServiceBusy", "%s %s is being modified.", ref.Kind, ref.Name)
		}
		touched, err := f(x, now)
		if err != nil {
			return nil, err
		}
		x.Busy = now.Add(s.r.w.transition)
		out = x.Clone()
		return append([]string{x.ARN()}, touched...), nil
	})
	return out, err
}

// Create makes a service, with an interface for each of its nodes.
func (s Services) Create(x native.Service) (native.Service, error) {
	var out native.Service
	err := s.r.mutate("CreateService", func(now time.Time) ([]string, error) {
		x = x.Clone()
		x.Account, x.Region, x.Created = s.r.at.account, s.r.at.region, now
		if err := x.Check(); err != nil {
			return nil, refuse("ServiceInvalid", "%v", err)
		}
		if _, err := s.find(x.Ref()); err == nil {
			return nil, refuse("ServiceExists", "%s %s is there already.", x.Kind, x.Name)
		}
		if x.Parent != "" {
			if _, err := s.find(x.ParentRef()); err != nil {
				return nil, err
			}
		}
		if err := s.r.equip(&x, now); err != nil {
			return nil, err
		}
		s.r.data.services[serviceKey(x.Ref())] = &x
		out = x.Clone()
		return append([]string{x.ARN()}, x.NICs()...), nil
	})
	return out, err
}

// Delete ends a service without members; its interfaces go with it.
func (s Services) Delete(ref native.Ref) error {
	return s.r.mutate("DeleteService", func(time.Time) ([]string, error) {
		x, err := s.find(ref)
		if err != nil {
			return nil, err
		}
		if len(s.members(ref)) > 0 {
			return nil, refuse("ServiceInvalid", "%s %s has members.", ref.Kind, ref.Name)
		}
		for _, id := range x.NICs() {
			delete(s.r.data.nics, id)
		}
		delete(s.r.data.services, serviceKey(ref))
		return append([]string{x.ARN()}, x.NICs()...), nil
	})
}

// SetGroups replaces the security groups of a service and of its members, as the API of the service
// does it. An empty list is refused where the service must have groups.
func (s Services) SetGroups(action string, ref native.Ref, ids []string) (native.Service, error) {
	return s.change(action, ref, func(x *native.Service, now time.Time) ([]string, error) {
		if len(ids) == 0 {
			return nil, refuse("ServiceInvalid", "at least one security group is needed")
		}
		groups, err := s.r.Interfaces().wantedGroups(x.VPCID, ids, now, func(id string) *Error {
			return refuse("DifferentNetworks", "The security group %s is not in %s, where %s is.", id, x.VPCID, x.Name)
		})
		if err != nil {
			return nil, err
		}
		var touched []string
		for _, m := range append(s.members(ref), x) {
			m.Groups = m.Groups[:0:0]
			for _, g := range groups {
				m.Groups = append(m.Groups, g.ID)
			}
			for _, id := range m.NICs() {
				if n := s.r.data.nics[id]; n != nil {
					n.Groups = slices.Clone(groups)
					touched = append(touched, id)
				}
			}
		}
		return touched, nil
	})
}

// SetTags sets and removes tags of a service.
func (s Services) SetTags(action string, ref native.Ref, set map[string]string, remove []string) error {
	return s.r.mutate(action, func(time.Time) ([]string, error) {
		x, err := s.find(ref)
		if err != nil {
			return nil, err
		}
		after, err := native.WithTags(x.Tags, set, remove)
		if err != nil {
			return nil, refuse("TagInvalid", "%v", err)
		}
		x.Tags = after
		return []string{x.ARN()}, nil
	})
}

// PutTargetGroup makes or replaces a target group.
func (s Services) PutTargetGroup(g native.TargetGroup) error {
	return s.r.mutate("PutTargetGroup", func(time.Time) ([]string, error) {
		g = g.Clone()
		g.Account, g.Region = s.r.at.account, s.r.at.region
		if err := g.Check(); err != nil {
			return nil, refuse("ServiceInvalid", "%v", err)
		}
		s.r.data.targets[g.Name] = &g
		return []string{g.ARN()}, nil
	})
}

// Failover makes another member the writer of a cluster or replication group. A database with a
// standby comes back with another interface, in another of its subnets if it has any.
func (s Services) Failover(ref native.Ref) (native.Service, error) {
	return s.change("Failover", ref, func(x *native.Service, now time.Time) ([]string, error) {
		if x.Parent != "" {
			return nil, refuse("ServiceInvalid", "%s is a member of %s: fail that over", x.Name, x.Parent)
		}
		if x.Kind == native.Database {
			if !x.MultiZone || len(x.Nodes) == 0 {
				return nil, refuse("ServiceInvalid", "%s %s has no standby", x.Kind, x.Name)
			}
			return s.replace(x, 0, now)
		}
		next := native.NextWriter(s.members(ref))
		if next == nil {
			return nil, refuse("ServiceInvalid", "%s %s has no member that could take over", x.Kind, x.Name)
		}
		return []string{next.ARN()}, nil
	})
}

// replace gives a node another interface, with another address, in the next subnet. The old one
// goes only after the new one has an address.
func (s Services) replace(x *native.Service, node int, now time.Time) ([]string, error) {
	old := x.Nodes[node]
	next := native.Node{SubnetID: old.SubnetID}
	if at := slices.Index(x.Subnets, old.SubnetID); len(x.Subnets) > 0 {
		next.SubnetID = x.Subnets[(at+1)%len(x.Subnets)]
	}
	x.Nodes[node] = next
	if err := s.r.equip(x, now); err != nil {
		x.Nodes[node] = old
		return nil, err
	}
	delete(s.r.data.nics, old.NIC)
	return []string{old.NIC, x.Nodes[node].NIC}, nil
}

// Scale gives a balancer this many interfaces in each of its subnets. The oldest go first, so that
// its addresses come and go.
func (s Services) Scale(ref native.Ref, perSubnet int) (native.Service, error) {
	return s.change("Scale", ref, func(x *native.Service, now time.Time) ([]string, error) {
		if !x.Kind.Balances() || perSubnet < 1 || perSubnet > 100 {
			return nil, refuse("ServiceInvalid", "expected a balancer and 1 to 100 interfaces, not %s and %d", x.Kind, perSubnet)
		}
		before := x.Nodes
		grown, surplus := native.Scaled(x.Nodes, x.Subnets, perSubnet)
		x.Nodes = grown
		if err := s.r.equip(x, now); err != nil {
			x.Nodes = before
			return nil, err
		}
		var touched []string
		for _, n := range x.Nodes {
			if !slices.Contains(before, n) {
				touched = append(touched, n.NIC)
			}
		}
		for _, n := range x.Nodes[:surplus] {
			touched = append(touched, n.NIC)
			delete(s.r.data.nics, n.NIC)
		}
		x.Nodes = x.Nodes[surplus:]
		return touched, nil
	})
}

// LookUp returns the addresses that a host name of a service leads to, as a client within the
// network sees them; those of a balancer that faces the internet are public. Nothing is found for
// names that no service has.
func (w *World) LookUp(host string) (out []netip.Addr) {
	w.read(func(time.Time) {
		at, ok := w.packets().addresses().hosts[strings.ToLower(host)]
		if !ok {
			return
		}
		region := Services{&Region{&site{w: w, data: at.data}}}
		for _, x := range native.Behind(at.service, region.members(at.service.Ref()), at.readers) {
			out = append(out, at.data.addressesOf(x)...)
		}
	})
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// hosted is whose a host name is.
type hosted struct {
	service *native.Service
	data    *regionData
	readers bool
}

func (d *regionData) addressesOf(s *native.Service) (out []netip.Addr) {
	for _, id := range s.NICs() {
		if n := d.nics[id]; n != nil && len(n.PrivateIPs) > 0 {
			if s.Kind.Balances() && n.PrivateIPs[0].Public.IsValid() {
				out = append(out, n.PrivateIPs[0].Public)
			} else {
				out = append(out, n.PrivateIPs[0].Addr)
			}
		}
	}
	return out
}

// services checks the services of a region against what they refer to.
func (c *checker) services(r *RegionState, subnets map[string]*Subnet) {
	nics := map[string]bool{}
	for i := range r.NetworkInterfaces {
		nics[r.NetworkInterfaces[i].ID] = true
	}
	inside := func(subnet, vpc string) bool { return subnets[subnet] != nil && subnets[subnet].VPCID == vpc }
	if err := native.CheckAll(r.Services, r.TargetGroups, inside, func(id string) bool { return nics[id] }); err != nil {
		c.problems = append(c.problems, err)
	}
}
