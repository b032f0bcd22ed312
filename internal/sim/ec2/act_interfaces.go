package ec2

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2/codec"
	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
)

// interfaceActions are those on interfaces and instances by themselves.
func interfaceActions() map[string]action {
	return map[string]action{
		"CreateNetworkInterface":            createNetworkInterface,
		"DeleteNetworkInterface":            deleteNetworkInterface,
		"AttachNetworkInterface":            attachNetworkInterface,
		"DetachNetworkInterface":            detachNetworkInterface,
		"AssignPrivateIpAddresses":          assignPrivateIPs,
		"UnassignPrivateIpAddresses":        unassignPrivateIPs,
		"DescribeNetworkInterfaceAttribute": describeNetworkInterfaceAttribute,
		"ModifyNetworkInterfaceAttribute":   modifyNetworkInterfaceAttribute,
		"DescribeInstanceAttribute":         describeInstanceAttribute,
		"ModifyInstanceAttribute":           modifyInstanceAttribute,
	}
}

func createNetworkInterface(r *request) ([]wire.Element, error) {
	tags, err := codec.TagSpec(r.params, "network-interface")
	if err != nil {
		return nil, err
	}
	spec, err := codec.InterfaceSpec(r.params)
	if err != nil {
		return nil, err
	}
	nic, err := r.region.Interfaces().CreateNetworkInterface(spec, tags, r.params.String("ClientToken"))
	if err != nil {
		return nil, err
	}
	if n, ok, err := r.params.Int("SecondaryPrivateIpAddressCount"); err != nil {
		return nil, err
	} else if ok && n > 0 {
		if _, err := r.region.Interfaces().AssignPrivateIPs(nic.ID, nil, n); err != nil {
			return nil, err
		}
		all, err := r.region.NetworkInterfaces(nic.ID)
		if err != nil {
			return nil, err
		}
		nic = all[0]
	}
	// The answer says what the interface is about to be.
	nic.Status = "pending"
	return []wire.Element{wire.Node("networkInterface", codec.InterfaceBody(r.region.Name(), nic)...)}, nil
}

func deleteNetworkInterface(r *request) ([]wire.Element, error) {
	id, err := need(r, "NetworkInterfaceId")
	if err != nil {
		return nil, err
	}
	return done(r.region.Interfaces().DeleteNetworkInterface(id))
}

func attachNetworkInterface(r *request) ([]wire.Element, error) {
	id, err := need(r, "NetworkInterfaceId")
	if err != nil {
		return nil, err
	}
	instance, err := need(r, "InstanceId")
	if err != nil {
		return nil, err
	}
	device, err := needCount(r, "DeviceIndex")
	if err != nil {
		return nil, err
	}
	attachment, err := r.region.Interfaces().AttachNetworkInterface(id, instance, device)
	if err != nil {
		return nil, err
	}
	return []wire.Element{wire.Text("attachmentId", attachment), wire.Int("networkCardIndex", 0)}, nil
}

func detachNetworkInterface(r *request) ([]wire.Element, error) {
	id, err := need(r, "AttachmentId")
	if err != nil {
		return nil, err
	}
	if _, _, err := r.params.Bool("Force"); err != nil {
		return nil, err
	}
	return done(r.region.Interfaces().DetachNetworkInterface(id))
}

func assignPrivateIPs(r *request) ([]wire.Element, error) {
	id, err := need(r, "NetworkInterfaceId")
	if err != nil {
		return nil, err
	}
	count, _, err := r.params.Int("SecondaryPrivateIpAddressCount")
	if err != nil {
		return nil, err
	}
	addrs, err := r.region.Interfaces().AssignPrivateIPs(id, r.params.Strings("PrivateIpAddress"), count)
	if err != nil {
		return nil, err
	}
	return []wire.Element{
		wire.Bool("return", true), wire.Text("networkInterfaceId", id),
		wire.List("assignedPrivateIpAddressesSet", addrs, func(a netip.Addr) []wire.Element {
			return []wire.Element{wire.Addr("privateIpAddress", a)}
		}),
	}, nil
}

func unassignPrivateIPs(r *request) ([]wire.Element, error) {
	id, err := need(r, "NetworkInterfaceId")
	if err != nil {
		return nil, err
	}
	addrs, err := needList(r, "PrivateIpAddress")
	if err != nil {
		return nil, err
	}
	return done(r.region.Interfaces().UnassignPrivateIPs(id, addrs))
}

func describeNetworkInterfaceAttribute(r *request) ([]wire.Element, error) {
	id, err := need(r, "NetworkInterfaceId")
	if err != nil {
		return nil, err
	}
	nics, err := r.region.NetworkInterfaces(id)
	if err != nil {
		return nil, err
	}
	n := nics[0]
	out := []wire.Element{wire.Text("networkInterfaceId", n.ID)}
	switch name := r.params.String("Attribute"); name {
	case "description":
		out = append(out, wire.Node(name, wire.Element{Name: "value", Text: n.Description}))
	case "sourceDestCheck":
		out = append(out, valueOf(name, n.SourceDestCheck))
	case "groupSet":
		out = append(out, codec.GroupSet(n.Groups))
	case "attachment":
		out = append(out, codec.Attachment(n, true))
	default:
		return nil, unknownAttribute(r, name)
	}
	return out, nil
}

func modifyNetworkInterfaceAttribute(r *request) ([]wire.Element, error) {
	id, err := need(r, "NetworkInterfaceId")
	if err != nil {
		return nil, err
	}
	given, err := oneAttribute(r, "SecurityGroupId", "Description", "SourceDestCheck", "Attachment")
	if err != nil {
		return nil, err
	}
	var c aws.InterfaceChange
	switch given {
	case "Description":
		c.Description = codec.StringPtr(r.params, "Description.Value")
	case "SourceDestCheck":
		on, _, err := r.params.Bool("SourceDestCheck.Value")
		if err != nil {
			return nil, err
		}
		c.SourceDestCheck = &on
	case "Attachment":
		on, ok, err := r.params.Bool("Attachment.DeleteOnTermination")
		if err == nil && !ok {
			err = codec.Missing("Attachment.DeleteOnTermination")
		}
		if err != nil {
			return nil, err
		}
		c.Attachment, c.DeleteOnTermination = r.params.String("Attachment.AttachmentId"), &on
	default:
		// The protocol cannot carry an empty list: a client that means one sends no group at all,
		// and is refused there.
		return done(r.region.Interfaces().ModifyNetworkInterfaceGroups(id, r.params.Strings("SecurityGroupId")))
	}
	return done(r.region.Interfaces().ModifyNetworkInterface(id, c))
}

// oneAttribute returns which of the known attributes a Modify call changes: one at a time. An
// attribute that the simulator cannot change is refused: it must not pretend to have changed it.
func oneAttribute(r *request, known ...string) (string, error) {
	var given []string
	for _, name := range known {
		if r.params.Has(name) {
			given = append(given, name)
		}
	}
	for name := range r.call.Params {
		root, _, _ := strings.Cut(name, ".")
		if !slices.Contains(given, root) && !slices.Contains(notAttributes, root) {
			given = append(given, root)
		}
	}
	slices.Sort(given[min(len(given), 1):])
	switch {
	case len(given) == 0:
		return known[0], nil
	case len(given) > 1:
		return "", codec.Fail("InvalidParameterCombination", "Fields for multiple attribute types specified: %s", strings.Join(given, ", "))
	case !slices.Contains(known, given[0]):
		return "", codec.Fail("UnsupportedOperation", "The simulator changes only %s, not %s", strings.Join(known, ", "), given[0])
	}
	return given[0], nil
}

// notAttributes are the parameters of Modify calls that name what is changed. It is never written
// to.
var notAttributes = []string{"NetworkInterfaceId", "InstanceId", "VpcId", "SubnetId", "DryRun", "Attribute", "Value"}

func valueOf(name string, on bool) wire.Element { return wire.Node(name, wire.Bool("value", on)) }

func unknownAttribute(r *request, name string) error {
	if name == "" {
		return codec.Missing("Attribute")
	}
	return codec.InvalidValue("Value (%s) for parameter attribute is invalid. Unknown attribute.", name)
}

func describeInstanceAttribute(r *request) ([]wire.Element, error) {
	id, err := need(r, "InstanceId")
	if err != nil {
		return nil, err
	}
	found, err := r.region.Instances(id)
	if err != nil {
		return nil, err
	}
	i := found[0]
	out := []wire.Element{wire.Text("instanceId", i.ID)}
	switch name := r.params.String("Attribute"); name {
	case "instanceType":
		out = append(out, wire.Node(name, wire.Text("value", i.InstanceType)))
	case "instanceInitiatedShutdownBehavior":
		out = append(out, wire.Node(name, wire.Text("value", i.Attributes.Shutdown())))
	case "disableApiTermination":
		out = append(out, valueOf(name, i.Attributes.KeepAlive))
	case "disableApiStop":
		out = append(out, valueOf(name, i.Attributes.KeepRunning))
	case "ebsOptimized":
		out = append(out, valueOf(name, i.Attributes.EBSOptimized))
	case "userData":
		out = append(out, wire.Node(name, wire.Text("value", i.Attributes.UserData)))
	case "sourceDestCheck", "groupSet":
		nic := i.Primary()
		if nic == nil {
			nic = &aws.NetworkInterface{}
		}
		if name == "groupSet" {
			out = append(out, codec.GroupSet(nic.Groups))
		} else {
			out = append(out, valueOf(name, nic.SourceDestCheck))
		}
	default:
		return nil, unknownAttribute(r, name)
	}
	return out, nil
}

func modifyInstanceAttribute(r *request) ([]wire.Element, error) {
	id, err := need(r, "InstanceId")
	if err != nil {
		return nil, err
	}
	given, err := oneAttribute(r, "GroupId", "InstanceType", "SourceDestCheck", "DisableApiTermination", "DisableApiStop",
		"InstanceInitiatedShutdownBehavior", "UserData", "EbsOptimized")
	if err != nil {
		return nil, err
	}
	if given == "GroupId" {
		groups := r.params.Strings("GroupId")
		if len(groups) == 0 {
			return nil, codec.Fail("InvalidParameterCombination", "No attributes specified.")
		}
		return done(r.region.Interfaces().ModifyInstanceGroups(id, groups))
	}
	text := r.params.String(given + ".Value")
	var c aws.InstanceChange
	switch given {
	case "InstanceType":
		c.Type = text
	case "UserData":
		c.Attributes = func(a *aws.InstanceAttributes) { a.UserData = text }
	case "InstanceInitiatedShutdownBehavior":
		if text != "stop" && text != "terminate" {
			return nil, codec.InvalidValue("Value (%s) for parameter instanceInitiatedShutdownBehavior is invalid. Expecting stop or terminate.", text)
		}
		c.Attributes = func(a *aws.InstanceAttributes) { a.OnShutdown = text }
	default:
		on, ok, err := r.params.Bool(given + ".Value")
		if err == nil && !ok {
			err = codec.Missing(given + ".Value")
		}
		if err != nil {
			return nil, err
		}
		c = switchOf(given, on)
	}
	return done(r.region.InstanceCalls().ModifyInstance(id, c))
}

// switchOf is the change of an attribute that is on or off.
func switchOf(name string, on bool) aws.InstanceChange {
	switch name {
	case "DisableApiTermination":
		return aws.InstanceChange{Attributes: func(a *aws.InstanceAttributes) { a.KeepAlive = on }}
	case "DisableApiStop":
		return aws.InstanceChange{Attributes: func(a *aws.InstanceAttributes) { a.KeepRunning = on }}
	case "EbsOptimized":
		return aws.InstanceChange{Attributes: func(a *aws.InstanceAttributes) { a.EBSOptimized = on }}
	}
	return aws.InstanceChange{SourceDestCheck: &on}
}
