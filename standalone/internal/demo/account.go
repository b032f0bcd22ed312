package demo

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws"
)

const (
	// region is where the account's VMs are, vpcID the VPC they are in.
	region = "us-west-2"
	vpcID  = "vpc-b390fad5"
	// tagPrefix begins the keys of all tags that we set in the cloud.
	tagPrefix = "nephele.io/"
)

// account looks at the simulated account from the side: at its state, not through the API that the
// controller uses.
type account struct{ server *sim.Server }

// regionState is the region as it is now.
func (a account) regionState() aws.RegionState {
	s := a.server.World().State()
	i := slices.IndexFunc(s.Regions, func(r aws.RegionState) bool { return r.Name == region })
	if i < 0 {
		return aws.RegionState{}
	}
	return s.Regions[i]
}

// vm is one VM of the story.
type vm struct {
	id, name, state string
	nics            []aws.NetworkInterface
}

// vms returns the VMs of the VPC in the order of the story's tables, interfaces in the order of
// their devices.
func vms(r aws.RegionState) ([]vm, error) {
	var out []vm
	for _, name := range destinations() {
		if name == internet {
			continue
		}
		i := slices.IndexFunc(r.Instances, func(i aws.Instance) bool { return i.VPCID == vpcID && i.Tags["Name"] == name })
		if i < 0 {
			return nil, fmt.Errorf("the simulated account has no VM called %q in %s; was it changed by hand? Start on a new data directory", name, vpcID)
		}
		v := vm{id: r.Instances[i].ID, name: name, state: r.Instances[i].State.String()}
		for _, n := range r.NetworkInterfaces {
			if n.Attachment != nil && n.Attachment.InstanceID == v.id {
				v.nics = append(v.nics, n)
			}
		}
		slices.SortFunc(v.nics, func(x, y aws.NetworkInterface) int { return x.Attachment.DeviceIndex - y.Attachment.DeviceIndex })
		out = append(out, v)
	}
	return out, nil
}

// matrix asks the simulator which endpoint reaches which now.
func (a account) matrix() (matrix, error) {
	machines, err := vms(a.regionState())
	if err != nil {
		return matrix{}, err
	}
	places := make([]place, 0, len(machines))
	for _, m := range machines {
		p := place{name: m.name}
		for _, n := range m.nics {
			p.nics = append(p.nics, n.ID)
		}
		places = append(places, p)
	}
	outside := func(text string) place { return place{name: text, addr: netip.MustParseAddr(text)} }
	from := slices.Concat(places, []place{outside(office), outside(internet)})
	to := slices.Concat(places, []place{outside(internet)})
	return reach(from, to, a.server.World().Allowed)
}

// ours tells a security group that Nephele has made.
func ours(g aws.SecurityGroup) bool { return hasOurTag(g.Tags) }

func hasOurTag(t aws.Tags) bool {
	return slices.ContainsFunc(t.Keys(), func(k string) bool { return strings.HasPrefix(k, tagPrefix) })
}

// objects returns everything that policies could change, each as text: groups with rules,
// interfaces with groups, VPCs, all with tags.
func objects(r aws.RegionState) map[string]string {
	out := map[string]string{}
	add := func(kind, id string, v any) {
		text, err := json.Marshal(v)
		if err != nil {
			panic("plain data cannot be written as JSON: " + err.Error())
		}
		out[kind+" "+id] = string(text)
	}
	for _, g := range r.SecurityGroups {
		add("security group", g.ID, g)
	}
	for _, n := range r.NetworkInterfaces {
		add("interface", n.ID, n)
	}
	for _, v := range r.VPCs {
		add("VPC", v.ID, v)
	}
	return out
}

// bystanders returns what no policy of the story is about: all groups but ours, interfaces that
// belong to no VM of the story, other VPCs.
func bystanders(r aws.RegionState) map[string]string {
	all := objects(r)
	for _, g := range r.SecurityGroups {
		if ours(g) {
			delete(all, "security group "+g.ID)
		}
	}
	for _, n := range r.NetworkInterfaces {
		if n.VPCID == vpcID && n.Attachment != nil {
			delete(all, "interface "+n.ID)
		}
	}
	delete(all, "VPC "+vpcID)
	return all
}

// changed lists what is in one of the two only, or not the same in both, in order.
func changed(before, after map[string]string) []string {
	var out []string
	for k, v := range before {
		if w, ok := after[k]; !ok {
			out = append(out, k+" is gone")
		} else if v != w {
			out = append(out, k+" has changed")
		}
	}
	for k := range after {
		if _, ok := before[k]; !ok {
			out = append(out, k+" is new")
		}
	}
	slices.Sort(out)
	return out
}
