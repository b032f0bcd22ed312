package sim

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
)

// This file holds the admin endpoints that tell stories: ask which endpoint reaches which, start,
// stop and tag machines.

// runBody starts one instance. Groups are ids; Name and Tags go onto the instance.
type runBody struct {
	Account   string            `json:"account,omitempty"`
	Region    string            `json:"region,omitempty"`
	Subnet    string            `json:"subnet"`
	Groups    []string          `json:"groups,omitempty"`
	PrivateIP string            `json:"privateIp,omitempty"`
	Name      string            `json:"name,omitempty"`
	Tags      map[string]string `json:"tags,omitempty"`
}

func (o operator) postRun(r *http.Request) (any, error) {
	var body runBody
	if err := readJSON(r, &body); err != nil {
		return nil, err
	}
	region, err := o.region(body.Account, body.Region)
	if err != nil {
		return nil, err
	}
	tags := aws.Tags{}
	for k, v := range body.Tags {
		tags[k] = v
	}
	if body.Name != "" {
		tags["Name"] = body.Name
	}
	return region.InstanceCalls().RunInstances(aws.RunInstancesInput{
		ImageID: "ami-00000000", InstanceType: "t3.micro", MinCount: 1, MaxCount: 1,
		SubnetID: body.Subnet, GroupIDs: body.Groups, PrivateIP: body.PrivateIP,
		Tags: map[string]aws.Tags{"instance": tags},
	})
}

// instancesBody names instances by id.
type instancesBody struct {
	Account   string   `json:"account,omitempty"`
	Region    string   `json:"region,omitempty"`
	Instances []string `json:"instances"`
}

func (o operator) postTerminate(r *http.Request) (any, error) {
	var body instancesBody
	if err := readJSON(r, &body); err != nil {
		return nil, err
	}
	region, err := o.region(body.Account, body.Region)
	if err != nil {
		return nil, err
	}
	return region.InstanceCalls().TerminateInstances(body.Instances)
}

// tagsBody sets and removes tags of resources.
type tagsBody struct {
	Account   string            `json:"account,omitempty"`
	Region    string            `json:"region,omitempty"`
	Resources []string          `json:"resources"`
	Set       map[string]string `json:"set,omitempty"`
	Remove    []string          `json:"remove,omitempty"`
}

func (o operator) postTags(r *http.Request) (any, error) {
	var body tagsBody
	if err := readJSON(r, &body); err != nil {
		return nil, err
	}
	region, err := o.region(body.Account, body.Region)
	if err != nil {
		return nil, err
	}
	if len(body.Set) > 0 {
		tags := make([]aws.Tag, 0, len(body.Set))
		for _, k := range aws.Tags(body.Set).Keys() {
			tags = append(tags, aws.Tag{Key: k, Value: body.Set[k]})
		}
		if err := region.CreateTags(body.Resources, tags); err != nil {
			return nil, err
		}
	}
	if len(body.Remove) == 0 {
		return nil, nil
	}
	keys := make([]aws.TagKey, 0, len(body.Remove))
	for _, k := range body.Remove {
		keys = append(keys, aws.TagKey{Key: k})
	}
	return nil, region.DeleteTags(body.Resources, keys)
}

// getAllowed: src and dst are an address, an interface id, an instance id or the Name tag of an
// instance; proto is tcp, udp, icmp, icmpv6 or a number; port, type and code belong to it.
func (o operator) getAllowed(r *http.Request) (any, error) {
	flow, err := o.flow(r)
	if err != nil {
		return nil, err
	}
	verdict, err := o.s.world.Allowed(flow)
	if err != nil {
		return nil, badRequest{err}
	}
	return verdict, nil
}

// flow reads a flow: src, dst, proto, port, type and code.
func (o operator) flow(r *http.Request) (flow packet.Flow, err error) {
	if flow.Src, err = o.end(r, "src"); err != nil {
		return flow, err
	}
	if flow.Dst, err = o.end(r, "dst"); err != nil {
		return flow, err
	}
	if flow.Protocol, err = protocol(r.FormValue("proto")); err != nil {
		return flow, err
	}
	for key, field := range map[string]*int{"port": &flow.Port, "type": &flow.ICMPType, "code": &flow.ICMPCode} {
		if *field, err = formInt(r, key); err != nil {
			return flow, err
		}
	}
	return flow, nil
}

func formInt(r *http.Request, key string) (int, error) {
	text := r.FormValue(key)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, badf("%s is %q, expected a number", key, text)
	}
	return n, nil
}

func protocol(name string) (int, error) {
	switch strings.ToLower(name) {
	case "", "tcp":
		return 6, nil
	case "udp":
		return 17, nil
	case "icmp":
		return 1, nil
	case "icmpv6":
		return 58, nil
	}
	n, err := strconv.Atoi(name)
	if err != nil || n < 0 || n > 255 {
		return 0, badf("proto is %q, expected tcp, udp, icmp, icmpv6 or a number up to 255", name)
	}
	return n, nil
}

func (o operator) end(r *http.Request, key string) (packet.End, error) {
	text := r.FormValue(key)
	vpc := r.FormValue(key + "vpc")
	if addr, err := netip.ParseAddr(text); err == nil {
		return packet.End{Addr: addr, VPC: vpc}, nil
	}
	if strings.HasPrefix(text, "eni-") {
		return packet.End{NIC: text}, nil
	}
	nic, err := o.findInstance(text)
	if err != nil {
		return packet.End{}, badf("%s: %w", key, err)
	}
	return packet.End{NIC: nic}, nil
}

// findInstance returns the primary interface of the one instance with this id or Name tag.
func (o operator) findInstance(name string) (nic string, err error) {
	for _, account := range o.s.world.Accounts() {
		for _, info := range o.s.world.Regions(account.ID) {
			region, err := o.s.world.Region(account.ID, info.Name)
			if err != nil {
				return "", err
			}
			instances, err := region.Instances()
			if err != nil {
				return "", err
			}
			for _, i := range instances {
				primary := i.Primary()
				if primary == nil || i.ID != name && i.Tags["Name"] != name {
					continue
				}
				if nic != "" {
					return "", badf("more than one instance is called %q, use an id", name)
				}
				nic = primary.ID
			}
		}
	}
	if nic == "" {
		return "", badf("there is no instance %q, and it is no address and no interface id", name)
	}
	return nic, nil
}
