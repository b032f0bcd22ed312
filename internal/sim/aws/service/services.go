package service

import (
	"cmp"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/aws/compute"
	"github.com/nephele-io/nephele/internal/sim/native"
	"github.com/nephele-io/nephele/internal/sim/store"
)

// EquipAll gives the services of a new World the interfaces that its State does not report.
func (r Services) EquipAll() error {
	var problems []error
	for _, key := range slices.Sorted(maps.Keys(r.s.Data.Services)) {
		if err := r.equip(r.s.Data.Services[key], time.Time{}); err != nil {
			problems = append(problems, errors.New(key+": "+err.Error()))
		}
	}
	return errors.Join(problems...)
}

// equip makes the interfaces that nodes of a service lack. A service that must have groups and has
// none gets the default group of its VPC.
func (r Services) equip(s *native.Service, now time.Time) error {
	looks, taken := s.InterfaceOf(), map[netip.Addr]bool{}
	nodes := slices.Clone(s.Nodes)
	made := map[int]*aws.NetworkInterface{}
	for i := range nodes {
		if nodes[i].NIC != "" {
			continue
		}
		spec := aws.InterfaceSpec{SubnetID: nodes[i].SubnetID, GroupIDs: s.Groups, Description: looks.Description, AssociatePublicIP: &s.Public}
		if nodes[i].Addr.IsValid() {
			spec.PrivateIP = nodes[i].Addr.String()
		}
		n, err := compute.InterfacesAt(r.s).Make(spec, now, taken)
		if err != nil {
			return err
		}
		if len(s.Groups) == 0 && s.Kind.Balances() {
			n.Groups = nil
		}
		n.InterfaceType, n.RequesterID, n.RequesterManaged, n.SourceDestCheck = looks.Type, looks.RequesterID, true, looks.SourceDestCheck
		n.Status = aws.StatusInUse
		if now.IsZero() {
			// What a State does not report has ids that depend on its name alone.
			n.ID = "eni-" + aws.ShortHash(s.ARN()+"/"+strconv.Itoa(i))
		}
		n.Attachment = &aws.Attachment{ID: "eni-attach-" + aws.ShortHash(n.ID), DeviceIndex: 1, Status: "attached", AttachTime: now.UTC().Truncate(time.Second)}
		nodes[i].NIC, made[i] = n.ID, n
	}
	s.Nodes = nodes
	for _, n := range made {
		r.s.Data.NICs[n.ID] = n
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
type Services struct{ s *store.Site }

// ServicesAt returns the calls on a site.
func ServicesAt(s *store.Site) Services { return Services{s} }

func (r Services) find(ref native.Ref) (*native.Service, error) {
	x := r.s.Data.Services[aws.ServiceKey(ref)]
	if x == nil {
		return nil, aws.Refuse("ServiceNotFound", "%s %s not found.", ref.Kind, ref.Name)
	}
	return x, nil
}

// List returns the services of the given kinds, by kind and name.
func (r Services) List(kinds ...native.Kind) (out []native.Service) {
	r.s.Read(func(time.Time) {
		for _, x := range r.s.Data.Services {
			if slices.Contains(kinds, x.Kind) {
				out = append(out, x.Clone())
			}
		}
	})
	slices.SortFunc(out, func(a, b native.Service) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return out
}

// Get returns one service.
func (r Services) Get(ref native.Ref) (out native.Service, err error) {
	r.s.Read(func(time.Time) {
		x, missing := r.find(ref)
		if err = missing; missing == nil {
			out = x.Clone()
		}
	})
	return out, err
}

// TargetGroups returns all target groups, by name.
func (r Services) TargetGroups() (out []native.TargetGroup) {
	r.s.Read(func(time.Time) { out = store.Ordered(r.s.Data.Targets, (*native.TargetGroup).Clone) })
	return out
}

// change runs f on a service that is not busy, as the mutation action. The service is busy
// afterwards for as long as Options.TransitionDelay says.
func (r Services) change(action string, ref native.Ref, f func(x *native.Service, now time.Time) (touched []string, err error)) (native.Service, error) {
	var out native.Service
	err := r.s.Mutate(action, func(now time.Time) ([]string, error) {
		x, err := r.find(ref)
		if err != nil {
			return nil, err
		}
		if now.Before(x.Busy) {
			return nil, aws.Refuse("ServiceBusy", "%s %s is being modified.", ref.Kind, ref.Name)
		}
		touched, err := f(x, now)
		if err != nil {
			return nil, err
		}
		x.Busy = now.Add(r.s.Transition())
		out = x.Clone()
		return append([]string{x.ARN()}, touched...), nil
	})
	return out, err
}

// Create makes a service, with an interface for each of its nodes.
func (r Services) Create(x native.Service) (native.Service, error) {
	var out native.Service
	err := r.s.Mutate("CreateService", func(now time.Time) ([]string, error) {
		x = x.Clone()
		x.Account, x.Region, x.Created = r.s.Account, r.s.Region, now
		if err := x.Check(); err != nil {
			return nil, aws.Refuse("ServiceInvalid", "%v", err)
		}
		if _, err := r.find(x.Ref()); err == nil {
			return nil, aws.Refuse("ServiceExists", "%s %s is there already.", x.Kind, x.Name)
		}
		if x.Parent != "" {
			if _, err := r.find(x.ParentRef()); err != nil {
				return nil, err
			}
		}
		if err := r.equip(&x, now); err != nil {
			return nil, err
		}
		r.s.Data.Services[aws.ServiceKey(x.Ref())] = &x
		out = x.Clone()
		return append([]string{x.ARN()}, x.NICs()...), nil
	})
	return out, err
}

// Delete ends a service without members; its interfaces go with it.
func (r Services) Delete(ref native.Ref) error {
	return r.s.Mutate("DeleteService", func(time.Time) ([]string, error) {
		x, err := r.find(ref)
		if err != nil {
			return nil, err
		}
		if len(r.s.Data.Members(ref)) > 0 {
			return nil, aws.Refuse("ServiceInvalid", "%s %s has members.", ref.Kind, ref.Name)
		}
		for _, id := range x.NICs() {
			delete(r.s.Data.NICs, id)
		}
		delete(r.s.Data.Services, aws.ServiceKey(ref))
		return append([]string{x.ARN()}, x.NICs()...), nil
	})
}

// SetGroups replaces the security groups of a service and of its members, as the API of the service
// does it. An empty list is refused where the service must have groups.
func (r Services) SetGroups(action string, ref native.Ref, ids []string) (native.Service, error) {
	return r.change(action, ref, func(x *native.Service, now time.Time) ([]string, error) {
		if len(ids) == 0 {
			return nil, aws.Refuse("ServiceInvalid", "at least one security group is needed")
		}
		groups, err := compute.InterfacesAt(r.s).WantedGroups(x.VPCID, ids, now, func(id string) *aws.Error {
			return aws.Refuse("DifferentNetworks", "The security group %s is not in %s, where %s is.", id, x.VPCID, x.Name)
		})
		if err != nil {
			return nil, err
		}
		var touched []string
		for _, m := range append(r.s.Data.Members(ref), x) {
			m.Groups = m.Groups[:0:0]
			for _, g := range groups {
				m.Groups = append(m.Groups, g.ID)
			}
			for _, id := range m.NICs() {
				if n := r.s.Data.NICs[id]; n != nil {
					n.Groups = slices.Clone(groups)
					touched = append(touched, id)
				}
			}
		}
		return touched, nil
	})
}

// SetTags sets and removes tags of a service.
func (r Services) SetTags(action string, ref native.Ref, set map[string]string, remove []string) error {
	return r.s.Mutate(action, func(time.Time) ([]string, error) {
		x, err := r.find(ref)
		if err != nil {
			return nil, err
		}
		after, err := native.WithTags(x.Tags, set, remove)
		if err != nil {
			return nil, aws.Refuse("TagInvalid", "%v", err)
		}
		x.Tags = after
		return []string{x.ARN()}, nil
	})
}

// PutTargetGroup makes or replaces a target group.
func (r Services) PutTargetGroup(g native.TargetGroup) error {
	return r.s.Mutate("PutTargetGroup", func(time.Time) ([]string, error) {
		g = g.Clone()
		g.Account, g.Region = r.s.Account, r.s.Region
		if err := g.Check(); err != nil {
			return nil, aws.Refuse("ServiceInvalid", "%v", err)
		}
		r.s.Data.Targets[g.Name] = &g
		return []string{g.ARN()}, nil
	})
}

// Failover makes another member the writer of a cluster or replication group. A database with a
// standby comes back with another interface, in another of its subnets if it has any.
func (r Services) Failover(ref native.Ref) (native.Service, error) {
	return r.change("Failover", ref, func(x *native.Service, now time.Time) ([]string, error) {
		if x.Parent != "" {
			return nil, aws.Refuse("ServiceInvalid", "%s is a member of %s: fail that over", x.Name, x.Parent)
		}
		if x.Kind == native.Database {
			if !x.MultiZone || len(x.Nodes) == 0 {
				return nil, aws.Refuse("ServiceInvalid", "%s %s has no standby", x.Kind, x.Name)
			}
			return r.replace(x, 0, now)
		}
		next := native.NextWriter(r.s.Data.Members(ref))
		if next == nil {
			return nil, aws.Refuse("ServiceInvalid", "%s %s has no member that could take over", x.Kind, x.Name)
		}
		return []string{next.ARN()}, nil
	})
}

// replace gives a node another interface, with another address, in the next subnet. The old one
// goes only after the new one has an address.
func (r Services) replace(x *native.Service, node int, now time.Time) ([]string, error) {
	old := x.Nodes[node]
	next := native.Node{SubnetID: old.SubnetID}
	if at := slices.Index(x.Subnets, old.SubnetID); len(x.Subnets) > 0 {
		next.SubnetID = x.Subnets[(at+1)%len(x.Subnets)]
	}
	x.Nodes[node] = next
	if err := r.equip(x, now); err != nil {
		x.Nodes[node] = old
		return nil, err
	}
	delete(r.s.Data.NICs, old.NIC)
	return []string{old.NIC, x.Nodes[node].NIC}, nil
}

// Scale gives a balancer this many interfaces in each of its subnets. The oldest go first, so that
// its addresses come and go.
func (r Services) Scale(ref native.Ref, perSubnet int) (native.Service, error) {
	return r.change("Scale", ref, func(x *native.Service, now time.Time) ([]string, error) {
		if !x.Kind.Balances() || perSubnet < 1 || perSubnet > 100 {
			return nil, aws.Refuse("ServiceInvalid", "expected a balancer and 1 to 100 interfaces, not %s and %d", x.Kind, perSubnet)
		}
		before := x.Nodes
		grown, surplus := native.Scaled(x.Nodes, x.Subnets, perSubnet)
		x.Nodes = grown
		if err := r.equip(x, now); err != nil {
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
			delete(r.s.Data.NICs, n.NIC)
		}
		x.Nodes = x.Nodes[surplus:]
		return touched, nil
	})
}

// Health tells the state of each target of a group; see Judge.Health.
func (r Services) Health(group string) (out []native.TargetHealth, err error) {
	r.s.Read(func(time.Time) {
		g := r.s.Data.Targets[group]
		if g == nil {
			err = aws.Refuse("ServiceNotFound", "target group %s not found.", group)
			return
		}
		out = r.s.Judge().Health(r.s.Data, g)
	})
	return out, err
}
